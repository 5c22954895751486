//! Ctrl-C, between the person, the thread that hears it and the work.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::engine::leave::leave;

/// What Ctrl-C means now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meaning {
    /// Leave at once: nothing is going on that could stop by itself.
    Leave = 0,
    /// Ask the work to stop. A second time leaves whatever it is doing.
    Brake = 1,
    /// The line editor has the terminal, takes Ctrl-C as a key, and has to put the terminal right before leaving.
    Nothing = 2,
}

#[derive(Default)]
pub(super) struct CtrlC {
    brake: Arc<AtomicBool>,
    meaning: AtomicU8,
}

impl CtrlC {
    pub(super) fn mean(&self, meaning: Meaning) {
        self.meaning.store(meaning as u8, Ordering::SeqCst);
    }

    pub(super) fn brake(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.brake)
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.brake.load(Ordering::SeqCst)
    }

    pub(super) fn release(&self) {
        self.brake.store(false, Ordering::SeqCst);
    }

    /// Set the brake, and say whether to leave.
    fn press(&self) -> bool {
        // The brake first: who changes the meaning looks at the brake afterwards, so one of both sees the other.
        let again = self.brake.swap(true, Ordering::SeqCst);
        match self.meaning.load(Ordering::SeqCst) {
            leave if leave == Meaning::Leave as u8 => true,
            brake if brake == Meaning::Brake as u8 => again,
            _ => false,
        }
    }
}

pub(super) fn listen(ctrl_c: Arc<CtrlC>, on_terminal: bool) {
    // It fails only when there is a handler already, which is then this one.
    let _ = ctrlc::set_handler(move || {
        if ctrl_c.press() {
            if on_terminal {
                // The terminal has shown `^C`, and what comes next begins on its own line.
                let _ = io::stderr().write_all(b"\n");
            }
            leave(130);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ctrl_c_does_depends_on_what_goes_on() {
        for (meaning, once, twice) in
            [(Meaning::Leave, true, true), (Meaning::Brake, false, true), (Meaning::Nothing, false, false)]
        {
            let ctrl_c = CtrlC::default();
            ctrl_c.mean(meaning);
            assert_eq!((ctrl_c.press(), ctrl_c.press()), (once, twice), "{meaning:?}");
            assert!(ctrl_c.is_pressed());
            ctrl_c.release();
            assert!(!ctrl_c.is_pressed());
        }
        assert!(CtrlC::default().press(), "before any work begins");
    }
}
