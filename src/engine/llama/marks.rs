//! Places that a memory can be taken back to which cannot go back by itself: copies of what it overwrites, the window
//! of sliding layers or the state of recurrent ones.
#![expect(unsafe_code, reason = "the copies are made by llama.cpp")]

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// The most marks.
const MOST: usize = 8;
/// The most bytes of all marks together.
const MOST_BYTES: usize = 1 << 30;
/// `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`: only what a KV cache does not keep by itself.
const FLAGS: sys::llama_state_seq_flags = 1;

/// Marks in the order of their places.
#[derive(Default)]
pub(super) struct Marks(Vec<Mark>);

struct Mark {
    /// Tokens in the cache.
    place: usize,
    state: Vec<u8>,
}

impl Marks {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Forget the marks behind `place`, where other tokens will be.
    pub(super) fn forget_beyond(&mut self, place: usize) {
        self.0.retain(|mark| mark.place <= place);
    }

    /// Mark the end of the cache, which holds `place` tokens. Makes room by letting go of the oldest but one: the
    /// first mark is the end of what all questions share.
    pub(super) fn set(&mut self, context: NonNull<sys::llama_context>, place: usize) {
        if self.0.last().is_some_and(|mark| mark.place == place) {
            return;
        }
        // SAFETY: a valid context, sequence 0 exists.
        let size = unsafe { sys::llama_state_seq_get_size_ext(context.as_ptr(), 0, FLAGS) };
        if size == 0 || size > MOST_BYTES {
            return;
        }
        while self.0.len() >= MOST || self.bytes() + size > MOST_BYTES {
            self.0.remove(usize::from(self.0.len() > 1));
        }
        let mut state = vec![0; size];
        // SAFETY: as above; pointer and length of a live buffer.
        let written = unsafe {
            sys::llama_state_seq_get_data_ext(context.as_ptr(), state.as_mut_ptr(), size, 0, FLAGS)
        };
        if written == size {
            self.0.push(Mark { place, state });
        }
    }

    /// Put back the state of the last mark that is not beyond `place`. Answers that mark's place, or 0.
    pub(super) fn restore(&mut self, context: NonNull<sys::llama_context>, place: usize) -> usize {
        self.forget_beyond(place);
        let Some(mark) = self.0.last() else { return 0 };
        // SAFETY: a valid context, sequence 0 exists; the buffer holds what the same context wrote.
        let read = unsafe {
            sys::llama_state_seq_set_data_ext(
                context.as_ptr(),
                mark.state.as_ptr(),
                mark.state.len(),
                0,
                FLAGS,
            )
        };
        if read == mark.state.len() { mark.place } else { 0 }
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<usize> {
        self.0.iter().map(|mark| mark.place).collect()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|mark| mark.state.len()).sum()
    }
}
