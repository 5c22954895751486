//! A few calls of ggml without a model: buffers on a device, and one multiplication. For measuring what the device can.
//!
//! ggml aborts the process on many wrong calls: every call is preceded by the check that it wants.
#![expect(unsafe_code, reason = "this file is a boundary to ggml")]

use std::ptr::{self, NonNull};

use llama_cpp_sys_2 as sys;

use super::log::{self, failure};
use super::{Device, DeviceKind};
use crate::error::{Error, Result};

/// A stream of work on a device.
pub(super) struct Backend {
    backend: NonNull<sys::ggml_backend>,
    device: NonNull<sys::ggml_backend_device>,
}

impl Backend {
    /// On a GPU, or without one on the CPU with so many threads.
    pub(super) fn open(gpu: Option<&Device>, threads: usize) -> Result<Self> {
        log::init();
        log::forget();
        // SAFETY: the backends are registered; a place that is not in the list is checked before.
        let device = unsafe {
            match gpu.filter(|device| device.kind == DeviceKind::Gpu) {
                Some(device) if device.index < sys::ggml_backend_dev_count() => {
                    sys::ggml_backend_dev_get(device.index)
                }
                Some(_) => ptr::null_mut(),
                None => sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU),
            }
        };
        let device = NonNull::new(device).ok_or_else(|| Error::failed("the device is gone"))?;
        // SAFETY: a valid device; no parameters are the defaults.
        let backend = unsafe { sys::ggml_backend_dev_init(device.as_ptr(), ptr::null()) };
        let backend = NonNull::new(backend).ok_or_else(|| failure("cannot use the device"))?;
        let threads = i32::try_from(threads.max(1)).unwrap_or(i32::MAX);
        // SAFETY: a valid backend, and the call is for that of the CPU alone.
        unsafe {
            if sys::ggml_backend_is_cpu(backend.as_ptr()) {
                sys::ggml_backend_cpu_set_n_threads(backend.as_ptr(), threads);
            }
        }
        Ok(Self { backend, device })
    }

    /// Where llama.cpp puts weights on this device, the preferred place first: those of the CPU are repacked if they can be.
    fn places(&self) -> Vec<NonNull<sys::ggml_backend_buffer_type>> {
        // SAFETY: a valid device. Its registry answers with a function of this type under this name, or with null; the
        // function answers with a list that null ends, or with null.
        let mut places = unsafe {
            let registry = sys::ggml_backend_dev_backend_reg(self.device.as_ptr());
            let found = sys::ggml_backend_reg_get_proc_address(
                registry,
                c"ggml_backend_dev_get_extra_bufts".as_ptr(),
            );
            let extra: sys::ggml_backend_dev_get_extra_bufts_t = std::mem::transmute(found);
            let first = extra.map_or(ptr::null_mut(), |extra| extra(self.device.as_ptr()));
            let nth = |n| if first.is_null() { None } else { NonNull::new(*first.add(n)) };
            (0..).map_while(nth).collect::<Vec<_>>()
        };
        places.extend(self.usual_place());
        places
    }

    fn usual_place(&self) -> Option<NonNull<sys::ggml_backend_buffer_type>> {
        // SAFETY: a valid device.
        NonNull::new(unsafe { sys::ggml_backend_dev_buffer_type(self.device.as_ptr()) })
    }

    /// Wait for what has been started.
    pub(super) fn wait(&self) {
        // SAFETY: a valid backend.
        unsafe { sys::ggml_backend_synchronize(self.backend.as_ptr()) }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: the only owner; the work has ended.
        unsafe { sys::ggml_backend_free(self.backend.as_ptr()) }
    }
}

/// Tensors and the buffers that they lie in.
struct Arena {
    context: NonNull<sys::ggml_context>,
    buffers: Vec<NonNull<sys::ggml_backend_buffer>>,
}

/// More than any use here has.
const TENSORS: usize = 40;

impl Arena {
    fn new() -> Result<Self> {
        // SAFETY: constants of the library.
        let size = unsafe { sys::ggml_tensor_overhead() * TENSORS + sys::ggml_graph_overhead() };
        // SAFETY: with no buffer ggml takes its own; the data of tensors is placed by `place`.
        let context = unsafe {
            sys::ggml_init(sys::ggml_init_params {
                mem_size: size,
                mem_buffer: ptr::null_mut(),
                no_alloc: true,
            })
        };
        let context = NonNull::new(context).ok_or_else(|| Error::failed("no memory for a measurement"))?;
        Ok(Self { context, buffers: Vec::new() })
    }

    /// A tensor of a type that ggml knows, with whole blocks in its rows.
    fn tensor(&self, kind: u32, columns: u64, rows: u64) -> Result<NonNull<sys::ggml_tensor>> {
        let (columns, rows) = checked(kind, columns, rows)?;
        // SAFETY: a valid context with room for `TENSORS`; the type is one, and its blocks fill the rows.
        let tensor = unsafe { sys::ggml_new_tensor_2d(self.context.as_ptr(), kind, columns, rows) };
        NonNull::new(tensor).ok_or_else(|| Error::failed("no memory for a measurement"))
    }

    /// Give a tensor memory of its own.
    fn place(
        &mut self,
        tensor: NonNull<sys::ggml_tensor>,
        place: NonNull<sys::ggml_backend_buffer_type>,
    ) -> Result<()> {
        log::forget();
        // SAFETY: a valid place and a tensor of this arena.
        let buffer = unsafe {
            let size = sys::ggml_backend_buft_get_alloc_size(place.as_ptr(), tensor.as_ptr());
            sys::ggml_backend_buft_alloc_buffer(place.as_ptr(), size)
        };
        let buffer = NonNull::new(buffer).ok_or_else(|| failure("no memory for a measurement"))?;
        self.buffers.push(buffer);
        // SAFETY: a tensor without data or buffer, put where a buffer of its size begins.
        let status = unsafe {
            let base = sys::ggml_backend_buffer_get_base(buffer.as_ptr());
            sys::ggml_backend_tensor_alloc(buffer.as_ptr(), tensor.as_ptr(), base)
        };
        if status == sys::GGML_STATUS_SUCCESS { Ok(()) } else { Err(failure("no memory for a measurement")) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the only owner; a tensor does not outlive its arena.
        unsafe {
            for buffer in &self.buffers {
                sys::ggml_backend_buffer_free(buffer.as_ptr());
            }
            sys::ggml_free(self.context.as_ptr());
        }
    }
}

/// Types of intermediate results, which ggml does not quantize to.
const NO_WEIGHTS: [sys::ggml_type; 7] = [
    sys::GGML_TYPE_Q8_1,
    sys::GGML_TYPE_Q8_K,
    sys::GGML_TYPE_I8,
    sys::GGML_TYPE_I16,
    sys::GGML_TYPE_I32,
    sys::GGML_TYPE_I64,
    sys::GGML_TYPE_F64,
];

/// Types that ggml quantizes to at once. For others it first makes tables, which takes it seconds, or wants to know how
/// much each weight matters, or cannot do it, and ends the process.
const QUANTIZED: [sys::ggml_type; 21] = [
    sys::GGML_TYPE_F32,
    sys::GGML_TYPE_F16,
    sys::GGML_TYPE_BF16,
    sys::GGML_TYPE_Q4_0,
    sys::GGML_TYPE_Q4_1,
    sys::GGML_TYPE_Q5_0,
    sys::GGML_TYPE_Q5_1,
    sys::GGML_TYPE_Q8_0,
    sys::GGML_TYPE_Q2_K,
    sys::GGML_TYPE_Q3_K,
    sys::GGML_TYPE_Q4_K,
    sys::GGML_TYPE_Q5_K,
    sys::GGML_TYPE_Q6_K,
    sys::GGML_TYPE_IQ4_NL,
    sys::GGML_TYPE_IQ4_XS,
    sys::GGML_TYPE_TQ1_0,
    sys::GGML_TYPE_TQ2_0,
    sys::GGML_TYPE_MXFP4,
    sys::GGML_TYPE_NVFP4,
    sys::GGML_TYPE_Q1_0,
    sys::GGML_TYPE_Q2_0,
];

/// Sides of a matrix of this type that ggml can have: its blocks fill a row, and its size is a number.
fn checked(kind: u32, columns: u64, rows: u64) -> Result<(i64, i64)> {
    const MOST: u64 = 1 << 40;
    let fits = columns > 0 && rows > 0 && columns.checked_mul(rows).is_some_and(|numbers| numbers <= MOST);
    // SAFETY: a type below the count. Numbers of retired types have a block of 0.
    let block = if kind < sys::GGML_TYPE_COUNT { unsafe { sys::ggml_blck_size(kind) } } else { 0 };
    let blocks = u64::try_from(block).is_ok_and(|block| block > 0 && columns.is_multiple_of(block));
    match (i64::try_from(columns), i64::try_from(rows)) {
        (Ok(columns), Ok(rows)) if fits && blocks && !NO_WEIGHTS.contains(&kind) => Ok((columns, rows)),
        _ => Err(Error::failed(format!("{columns} × {rows} numbers of the type {kind} cannot be measured"))),
    }
}

/// Two buffers on a GPU, the first of which is copied to the second.
pub(super) struct Copy {
    backend: Backend,
    _arena: Arena,
    from: NonNull<sys::ggml_tensor>,
    to: NonNull<sys::ggml_tensor>,
}

impl Copy {
    pub(super) fn new(backend: Backend, bytes: u64) -> Result<Self> {
        let numbers = bytes / 4;
        let place = backend.usual_place().ok_or_else(|| Error::failed("the device has no memory"))?;
        let mut arena = Arena::new()?;
        let from = arena.tensor(sys::GGML_TYPE_F32, numbers, 1)?;
        let to = arena.tensor(sys::GGML_TYPE_F32, numbers, 1)?;
        arena.place(from, place)?;
        arena.place(to, place)?;
        Ok(Self { backend, _arena: arena, from, to })
    }

    /// Copy so many times, and wait for the end.
    pub(super) fn run(&self, times: u32) {
        for _ in 0..times {
            // SAFETY: two tensors of the same shape in buffers of the same device, whose backend this is.
            unsafe {
                let backend = self.backend.backend.as_ptr();
                sys::ggml_backend_tensor_copy_async(backend, backend, self.from.as_ptr(), self.to.as_ptr());
            }
        }
        self.backend.wait();
    }
}

/// A matrix of weights, times the embeddings of a batch, some times in a row.
pub(super) struct Product {
    backend: Backend,
    _arena: Arena,
    graph: NonNull<sys::ggml_cgraph>,
}

impl Product {
    /// `None` where the device cannot multiply by weights of this type.
    pub(super) fn new(
        backend: Backend,
        kind: u32,
        (columns, rows): (u64, u64),
        batch: u64,
        times: usize,
    ) -> Result<Option<Self>> {
        let mut arena = Arena::new()?;
        let weights = arena.tensor(kind, columns, rows)?;
        let embeddings = arena.tensor(sys::GGML_TYPE_F32, columns, batch)?;
        let context = arena.context.as_ptr();
        let multiply = |_| {
            // SAFETY: two tensors of this context with rows of the same length, neither of which is transposed.
            let product = unsafe { sys::ggml_mul_mat(context, weights.as_ptr(), embeddings.as_ptr()) };
            NonNull::new(product).ok_or_else(|| Error::failed("no memory for a measurement"))
        };
        let products = (0..times.clamp(1, TENSORS - 2)).map(multiply).collect::<Result<Vec<_>>>()?;
        let product = products[0];
        let place = backend.places().into_iter().find(|&place| supports(&backend, place, weights, product));
        let (Some(place), Some(usual)) = (place, backend.usual_place()) else { return Ok(None) };
        arena.place(weights, place)?;
        arena.place(embeddings, usual)?;
        for product in &products {
            arena.place(*product, usual)?;
        }
        // SAFETY: the last buffers were made for these tensors.
        unsafe {
            sys::ggml_backend_buffer_set_usage(
                (*weights.as_ptr()).buffer,
                sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS,
            );
        }
        fill(weights, &quantized(kind, columns, rows)?)?;
        fill(embeddings, &quantized(sys::GGML_TYPE_F32, columns, batch)?)?;
        // SAFETY: a context with room for a graph, and tensors of it, fewer than a graph has room for.
        let graph = unsafe {
            let graph = sys::ggml_new_graph(context);
            if !graph.is_null() {
                for product in &products {
                    sys::ggml_build_forward_expand(graph, product.as_ptr());
                }
            }
            graph
        };
        let graph = NonNull::new(graph).ok_or_else(|| Error::failed("no memory for a measurement"))?;
        Ok(Some(Self { backend, _arena: arena, graph }))
    }

    pub(super) fn run(&self) -> Result<()> {
        log::forget();
        // SAFETY: a graph whose tensors all lie in buffers that this backend can use.
        let status =
            unsafe { sys::ggml_backend_graph_compute(self.backend.backend.as_ptr(), self.graph.as_ptr()) };
        self.backend.wait();
        if status == sys::GGML_STATUS_SUCCESS { Ok(()) } else { Err(failure("cannot multiply matrices")) }
    }
}

/// Can the device multiply by weights that lie there? Asked as llama.cpp's loader does, with an empty buffer.
fn supports(
    backend: &Backend,
    place: NonNull<sys::ggml_backend_buffer_type>,
    weights: NonNull<sys::ggml_tensor>,
    product: NonNull<sys::ggml_tensor>,
) -> bool {
    // SAFETY: a valid place, device and tensors; the weights have no buffer before and none after.
    unsafe {
        let empty = sys::ggml_backend_buft_alloc_buffer(place.as_ptr(), 0);
        if empty.is_null() {
            return false;
        }
        (*weights.as_ptr()).buffer = empty;
        let can = sys::ggml_backend_dev_supports_op(backend.device.as_ptr(), product.as_ptr());
        (*weights.as_ptr()).buffer = ptr::null_mut();
        sys::ggml_backend_buffer_free(empty);
        can
    }
}

/// Write all of a tensor that lies in a buffer.
fn fill(tensor: NonNull<sys::ggml_tensor>, bytes: &[u8]) -> Result<()> {
    // SAFETY: a valid tensor.
    if unsafe { sys::ggml_nbytes(tensor.as_ptr()) } != bytes.len() {
        return Err(Error::failed("a matrix has another size than expected"));
    }
    // SAFETY: a tensor in a buffer, and as many bytes as it has.
    unsafe { sys::ggml_backend_tensor_set(tensor.as_ptr(), bytes.as_ptr().cast(), 0, bytes.len()) }
    Ok(())
}

/// Rows of small random numbers in a type. Only a few are made, because quantizing takes its time, and repeated; of
/// types that are not [`QUANTIZED`] the numbers are zeros, which are multiplied like others.
fn quantized(kind: u32, columns: u64, rows: u64) -> Result<Vec<u8>> {
    const DIFFERENT: u64 = 16;
    let size = |n: i64| usize::try_from(n).map_err(|_| Error::failed("a matrix is too large"));
    let (width, made) = checked(kind, columns, rows.min(DIFFERENT))?;
    let (_, all) = checked(kind, columns, rows)?;
    // SAFETY: whole blocks in a row of a known type.
    let row = unsafe { sys::ggml_row_size(kind, width) };
    let mut bytes = vec![0_u8; row * size(made)?];
    if QUANTIZED.contains(&kind) {
        let mut random = fastrand::Rng::with_seed(1);
        let numbers: Vec<f32> = (0..width * made).map(|_| random.f32() - 0.5).collect();
        // SAFETY: as many numbers as both sides say, room for what they become, and a type that asks for nothing more.
        unsafe {
            let (from, to) = (numbers.as_ptr(), bytes.as_mut_ptr().cast());
            sys::ggml_quantize_chunk(kind, from, to, 0, made, width, ptr::null());
        }
    }
    Ok(bytes.iter().copied().cycle().take(row * size(all)?).collect())
}
