//! Arithmetic with numbers of any size, such as those of a header that nobody has checked.

/// The largest number stands for a sum or a product that is larger.
pub(crate) fn sum(all: impl IntoIterator<Item = u64>) -> u64 {
    all.into_iter().fold(0, u64::saturating_add)
}

pub(crate) fn product(all: impl IntoIterator<Item = u64>) -> u64 {
    all.into_iter().fold(1, u64::saturating_mul)
}

/// To estimate with.
#[expect(clippy::cast_precision_loss, reason = "of a number above 2^53 the first 15 digits stay")]
pub(crate) fn float(n: u64) -> f64 {
    n as f64
}

/// Without what stands behind the point; 0 for what is negative or no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(crate) fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows() {
        assert_eq!((sum([]), sum([2, 3]), sum([u64::MAX, 1])), (0, 5, u64::MAX));
        assert_eq!((product([]), product([2, 3]), product([u64::MAX, 2])), (1, 6, u64::MAX));
        assert_eq!(product([u64::MAX, 2, 0]), 0);
        let numbers = [0.0, 2.9, -1.0, f64::NAN, f64::INFINITY, float(1 << 60)];
        assert_eq!(numbers.map(whole), [0, 2, 0, 0, u64::MAX, 1 << 60]);
    }
}
