//! The callback that llama.cpp asks at each node of its graph, and what is kept of what it shows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use llama_cpp_sys_2 as sys;

use super::squares::{Mismatch, Squares, View};
use super::{Progress, Report, interrupted};
use crate::engine::llama::Brake;
use crate::error::{Error, Result};
use crate::human::Escaped;

/// Fewer rows than this are no text but something in between; llama.cpp leaves them out too.
const LEAST_ROWS: i64 = 16;

/// Sums up what passes by, and asks whether to go on.
pub(super) struct Collector<'a, 'r> {
    tensors: BTreeMap<String, Squares>,
    report: &'a mut Report<'r>,
    /// Stops the evaluation.
    brake: Brake,
    /// The first error; nothing is collected after it.
    fault: Option<Error>,
    progress: Progress,
    /// Matrices seen in this chunk.
    seen: usize,
    /// Matrices in every chunk, known after the first.
    in_chunk: Option<usize>,
    /// Copies of what lies on a GPU.
    floats: Vec<f32>,
    ids: Vec<i32>,
}

impl<'a, 'r> Collector<'a, 'r> {
    pub(super) fn new(report: &'a mut Report<'r>, brake: Brake) -> Self {
        Self {
            tensors: BTreeMap::new(),
            report,
            brake,
            fault: None,
            progress: Progress::Loading(1.0),
            seen: 0,
            in_chunk: None,
            floats: Vec::new(),
            ids: Vec::new(),
        }
    }

    pub(super) fn start_chunk(&mut self, done: u32, all: u32) -> Result<()> {
        self.progress = Progress::Chunks { done, all };
        self.seen = 0;
        self.go_on();
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The fault of a chunk, if it has one.
    pub(super) fn end_chunk(&mut self) -> Result<()> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.in_chunk.get_or_insert(self.seen);
        let finite = |squares: &Squares| squares.sums.iter().all(|sum| sum.is_finite());
        match self.tensors.iter().find(|(_, squares)| !finite(squares)) {
            Some((name, _)) => Err(Error::failed(format!(
                "the input of `{}` is not a number; the weights or the device are faulty",
                Escaped(name)
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, all: u32) -> Result<()> {
        if self.tensors.is_empty() {
            return Err(Error::failed("the model has no matrices to calibrate"));
        }
        self.start_chunk(all, all)
    }

    pub(super) fn take(&mut self) -> BTreeMap<String, Squares> {
        std::mem::take(&mut self.tensors)
    }

    /// Ask whether to go on.
    fn go_on(&mut self) {
        if self.fault.is_none() && (self.report)(self.progress) == ControlFlow::Break(()) {
            self.stop(interrupted());
        }
    }

    fn stop(&mut self, fault: Error) {
        self.brake.store(true, Ordering::Relaxed);
        self.fault.get_or_insert(fault);
    }

    /// Take the input of a node that has been computed. Answers whether the rest of the graph has to be: what comes
    /// after the last matrix, which is the projection onto the vocabulary, changes nothing here.
    fn take_in(&mut self, node: &Node<'_>) -> bool {
        self.go_on();
        if self.fault.is_some() {
            return false;
        }
        let name = node.name();
        let squares = self.tensors.entry(name.clone().into_owned()).or_default();
        if node.sum_up(squares, &mut self.floats, &mut self.ids) == Err(Mismatch) {
            self.stop(Error::failed(format!("the input of `{}` has an unexpected shape", Escaped(&name))));
            return false;
        }
        self.seen += 1;
        self.in_chunk != Some(self.seen)
    }
}

/// llama.cpp's callback: first asked whether it wants to see a node, then shown it. The answer to the second is whether
/// to go on.
pub(super) unsafe extern "C" fn on_node(tensor: *mut sys::ggml_tensor, ask: bool, data: *mut c_void) -> bool {
    // SAFETY: `calibrate` passes its collector, which outlives the context; llama.cpp passes a node of its graph.
    let (collector, tensor) = unsafe { (&*data.cast::<Mutex<Collector>>(), &*tensor) };
    let look = || {
        let Some(node) = Node::new(tensor) else { return false };
        if ask {
            node.is_wanted()
        } else {
            collector.lock().unwrap_or_else(PoisonError::into_inner).take_in(&node)
        }
    };
    // A panic must not unwind into C.
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
        let mut collector = collector.lock().unwrap_or_else(PoisonError::into_inner);
        collector.stop(Error::failed("the calibration failed"));
        false
    })
}

/// The product of a matrix, or of some of many, with an input.
struct Node<'g> {
    matrix: &'g sys::ggml_tensor,
    input: &'g sys::ggml_tensor,
    /// Which expert each row goes to.
    ids: Option<&'g sys::ggml_tensor>,
}

impl<'g> Node<'g> {
    fn new(tensor: &'g sys::ggml_tensor) -> Option<Self> {
        // SAFETY: the sources of a node are tensors of the same graph, or null.
        let source = |at: usize| unsafe { tensor.src[at].as_ref() };
        let ids = match tensor.op {
            sys::GGML_OP_MUL_MAT => None,
            sys::GGML_OP_MUL_MAT_ID => Some(source(2)?),
            _ => return None,
        };
        Some(Self { matrix: source(0)?, input: source(1)?, ids })
    }

    /// Is it one that an importance matrix has? Any matrix of experts, and those of a layer that get a text.
    fn is_wanted(&self) -> bool {
        self.input.type_ == sys::GGML_TYPE_F32
            && (self.ids.is_some() || (self.input.ne[1] >= LEAST_ROWS && self.name().starts_with("blk.")))
    }

    /// The name of the weight: a copy on another device is called `CUDA0#blk.0.attn_k.weight#0`.
    fn name(&self) -> Cow<'g, str> {
        // SAFETY: ggml ends a name with a zero, within its 64 bytes.
        let name = unsafe { CStr::from_ptr(self.matrix.name.as_ptr()) }.to_bytes();
        String::from_utf8_lossy(name.split(|&byte| byte == b'#').nth(1).unwrap_or(name))
    }

    fn sum_up(
        &self,
        squares: &mut Squares,
        floats: &mut Vec<f32>,
        ids: &mut Vec<i32>,
    ) -> std::result::Result<(), Mismatch> {
        let size = sizes(self.matrix).ok_or(Mismatch)?;
        let input = read(self.input, floats).ok_or(Mismatch)?;
        match self.ids {
            None => squares.add(input, [size[2], size[3]]),
            Some(routed) if routed.type_ == sys::GGML_TYPE_I32 => {
                squares.add_routed(input, read(routed, ids).ok_or(Mismatch)?, size[2])
            }
            Some(_) => Err(Mismatch),
        }
    }
}

/// A number of four bytes whose every pattern of bits is one.
trait Plain: Copy + Default {}
impl Plain for f32 {}
impl Plain for i32 {}

/// The content of a tensor of such numbers, where it lies or, from the memory of a GPU, copied to `room`.
fn read<'a, T: Plain>(tensor: &'a sys::ggml_tensor, room: &'a mut Vec<T>) -> Option<View<'a, T>> {
    const WIDTH: usize = 4;
    let stride = tensor.nb.map(|bytes| bytes.is_multiple_of(WIDTH).then_some(bytes / WIDTH));
    let stride = [stride[0].filter(|&one| one == 1)?, stride[1]?, stride[2]?, stride[3]?];
    let size = sizes(tensor)?;
    // SAFETY: a tensor of a graph that has been computed.
    let bytes = unsafe { sys::ggml_nbytes(tensor) };
    let len = bytes / WIDTH;
    let buffer = if tensor.buffer.is_null() && !tensor.view_src.is_null() {
        // SAFETY: the tensor that a view looks at is one of the same graph.
        unsafe { (*tensor.view_src).buffer }
    } else {
        tensor.buffer
    };
    if buffer.is_null() || tensor.data.is_null() {
        return None;
    }
    // SAFETY: a buffer that holds a tensor.
    let in_memory = unsafe { sys::ggml_backend_buffer_is_host(buffer) };
    let data = if in_memory && tensor.data.cast::<T>().is_aligned() {
        // SAFETY: aligned numbers of four bytes, as many as the tensor spans; nobody writes to them until the callback
        // returns.
        unsafe { slice::from_raw_parts(tensor.data.cast::<T>(), len) }
    } else {
        room.resize(len, T::default());
        // SAFETY: the tensor spans as many bytes, and the room has them.
        unsafe { sys::ggml_backend_tensor_get(tensor, room.as_mut_ptr().cast(), 0, len * WIDTH) };
        &*room
    };
    Some(View { data, size, stride })
}

/// The four dimensions, none of which is empty.
fn sizes(tensor: &sys::ggml_tensor) -> Option<[usize; 4]> {
    let size = tensor.ne.map(|size| usize::try_from(size).unwrap_or(0));
    (!size.contains(&0)).then_some(size)
}
