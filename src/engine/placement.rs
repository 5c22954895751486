//! Devices, and which of them hold which layers of a model.
#![expect(unsafe_code, reason = "devices belong to llama.cpp")]

use std::ffi::CStr;
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::log::{self, failure};
use super::{Device, DeviceKind, GpuLayers, LoadPlan};
use crate::error::{Error, Kind, Result};

/// Memory left free on each GPU, in bytes, as llama.cpp's own tools leave it.
pub(crate) const GPU_MARGIN: usize = 1 << 30;

/// Whether this build has the code for CUDA, Metal and Vulkan.
pub(crate) const GPU_BACKENDS: [bool; 3] =
    [cfg!(feature = "cuda"), cfg!(feature = "metal"), cfg!(feature = "vulkan")];

/// The devices that llama.cpp sees, with their memory.
pub(crate) fn devices() -> Vec<Device> {
    use llama_cpp_2::LlamaBackendDeviceType as Type;
    log::init();
    llama_cpp_2::list_llama_ggml_backend_devices()
        .into_iter()
        .map(|device| Device {
            kind: match device.device_type {
                Type::Gpu | Type::IntegratedGpu => DeviceKind::Gpu,
                Type::Cpu => DeviceKind::Cpu,
                Type::Accelerator | Type::Unknown => DeviceKind::Other,
            },
            index: device.index,
            name: device.name,
            description: device.description,
            backend: device.backend,
            total: device.memory_total as u64,
            free: device.memory_free as u64,
        })
        .collect()
}

/// The devices that a person means by a name, of which there is at least one.
pub(crate) fn named(wanted: &str) -> Result<Vec<Device>> {
    let (found, others): (Vec<_>, Vec<_>) = devices().into_iter().partition(|d| d.is_called(wanted));
    if found.is_empty() {
        let names: Vec<String> =
            others.iter().map(|d| format!("`{}`", d.name.to_ascii_lowercase())).collect();
        let error = Error::failed(format!("no device `{wanted}`; this build sees {}", names.join(", ")));
        return Err(error.hint("`infer --version -v` lists backends and devices"));
    }
    Ok(found)
}

/// Would a model placed like this have layers on a GPU?
pub(crate) fn uses_gpu(device: Option<&str>, layers: GpuLayers) -> bool {
    layers != GpuLayers::Count(0)
        && devices()
            .iter()
            .any(|d| d.kind == DeviceKind::Gpu && device.is_none_or(|wanted| d.is_called(wanted)))
}

/// The features that each backend was compiled with, as llama.cpp words them.
pub(crate) fn system_info() -> String {
    log::init();
    // SAFETY: the backend is initialised, and the returned string is static until the next call.
    unsafe { CStr::from_ptr(sys::llama_print_system_info()) }
        .to_string_lossy()
        .trim_end_matches([' ', '|'])
        .to_owned()
}

/// Buffers into which llama.cpp's fit writes how the model is spread over the devices.
pub(super) struct Placement {
    split: Vec<f32>,
    overrides: Vec<sys::llama_model_tensor_buft_override>,
    margins: Vec<usize>,
}

impl Placement {
    pub(super) fn new() -> Self {
        // SAFETY: constants of the library.
        let (devices, overrides) =
            unsafe { (sys::llama_max_devices(), sys::llama_max_tensor_buft_overrides()) };
        let none = sys::llama_model_tensor_buft_override { pattern: ptr::null(), buft: ptr::null_mut() };
        Self {
            split: vec![0.0; devices],
            overrides: vec![none; overrides + 1],
            margins: vec![GPU_MARGIN; devices],
        }
    }

    /// Do tensors stay with the CPU whose layer is on a GPU, such as experts?
    pub(super) fn holds_back(&self) -> bool {
        self.overrides.first().is_some_and(|first| !first.pattern.is_null())
    }

    /// As many layers on the GPU as fit, the rest on the CPU.
    pub(super) fn fit(
        &mut self,
        file: &CStr,
        params: &mut sys::llama_model_params,
        context: &mut sys::llama_context_params,
    ) -> Result<()> {
        log::forget();
        // SAFETY: all buffers are as long as llama.cpp's own limits ask, and outlive `params`.
        let status = unsafe {
            sys::llama_rs_fit_params(
                file.as_ptr(),
                params,
                context,
                self.split.as_mut_ptr(),
                self.overrides.as_mut_ptr(),
                self.margins.as_mut_ptr(),
                context.n_ctx,
                ptr::null(),
                sys::GGML_LOG_LEVEL_ERROR,
            )
        };
        // The call replaces the log callback for its own time.
        log::install();
        match status {
            0 => {
                params.tensor_split = self.split.as_ptr();
                params.tensor_buft_overrides = self.overrides.as_ptr();
                Ok(())
            }
            1 => {
                Err(Error::new(Kind::TooBig, format!("the model does not fit at context {}", context.n_ctx))
                    .hint("try a smaller `--ctx`, `--kv q8_0`, or `--gpu-layers 0`"))
            }
            _ => Err(failure("cannot plan where the model goes")),
        }
    }
}

/// The devices asked for, null-terminated as llama.cpp wants them, or `None` for its own choice.
pub(super) fn chosen_devices(plan: &LoadPlan) -> Result<Option<Vec<sys::ggml_backend_dev_t>>> {
    let Some(wanted) = plan.device.as_deref() else { return Ok(None) };
    let found = named(wanted)?;
    // SAFETY: the indices come from the same list.
    let get = |d: &Device| unsafe { sys::ggml_backend_dev_get(d.index) };
    let mut list: Vec<_> = found.iter().filter(|d| d.kind != DeviceKind::Cpu).map(get).collect();
    list.push(ptr::null_mut());
    Ok(Some(list))
}
