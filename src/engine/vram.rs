//! The memory that a model takes on the GPUs, measured: what was free before it was loaded, less what is free now.
#![expect(unsafe_code, reason = "devices belong to llama.cpp")]

use llama_cpp_sys_2 as sys;

use super::{DeviceKind, placement};

/// A GPU by its place in llama.cpp's list, and the bytes that were free on it.
#[derive(Debug, Clone)]
pub(super) struct Vram(Vec<(usize, u64)>);

impl Vram {
    /// The GPUs as they are now. Asking starts CUDA, whose own memory therefore doesn't count.
    pub(super) fn now() -> Self {
        let devices = placement::devices().into_iter();
        Self(devices.filter(|d| d.kind == DeviceKind::Gpu).map(|d| (d.index, d.free)).collect())
    }

    /// Bytes taken since then, by other processes too. `None` where there is no GPU, or one of them does not answer.
    pub(super) fn taken(&self) -> Option<u64> {
        self.taken_by(free)
    }

    fn taken_by(&self, free: impl Fn(usize) -> Option<u64>) -> Option<u64> {
        let taken = |(index, before): &(usize, u64)| free(*index).map(|free| before.saturating_sub(free));
        if self.0.is_empty() { None } else { self.0.iter().map(taken).sum() }
    }
}

/// Bytes free on a device. One that fails to answer says that it has no memory at all.
fn free(index: usize) -> Option<u64> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the index is one of llama.cpp's list, which never changes; both pointers are to live numbers.
    unsafe { sys::ggml_backend_dev_memory(sys::ggml_backend_dev_get(index), &raw mut free, &raw mut total) };
    (total > 0).then_some(free as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_what_is_no_longer_free() {
        let two = Vram(vec![(1, 100), (3, 50)]);
        assert_eq!(two.taken_by(|index| Some(if index == 1 { 30 } else { 60 })), Some(70));
        assert_eq!(two.taken_by(|index| (index == 1).then_some(30)), None);
        assert_eq!(Vram(Vec::new()).taken_by(|_| Some(1)), None);
    }

    #[test]
    fn the_memory_of_a_device_is_asked_for_by_its_place() {
        let all = placement::devices();
        let cpu = all.iter().find(|device| device.kind == DeviceKind::Cpu).unwrap();
        assert!(free(cpu.index).is_some_and(|free| free <= cpu.total));
    }
}
