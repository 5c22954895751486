//! Sums of squares, column by column: pure, over tensors that anybody may have made.

/// What came in at the columns of a weight.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Squares {
    /// For each column, the sum of the squares of its inputs; the experts, or the matrices of a stack, one after another.
    pub(crate) sums: Vec<f32>,
    /// The rows in each sum: one number for each expert, or one for all.
    pub(crate) counts: Vec<u64>,
}

/// A tensor of four dimensions whose rows can lie anywhere in `data`. Sizes and strides in elements, the row first; the
/// elements of a row are neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a, T> {
    pub(super) data: &'a [T],
    pub(super) size: [usize; 4],
    pub(super) stride: [usize; 4],
}

impl<'a, T> View<'a, T> {
    fn row(&self, at: [usize; 3]) -> Option<&'a [T]> {
        let start = at.iter().zip(&self.stride[1..]).map(|(at, stride)| at * stride).sum::<usize>();
        self.data.get(start..start + self.size[0])
    }
}

/// A matrix and its input do not go together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch;

impl Squares {
    /// The columns that share a count.
    pub(crate) fn width(&self) -> usize {
        self.sums.len().checked_div(self.counts.len()).unwrap_or(0)
    }

    /// Make room at the first time, and see that it stays the same.
    fn shape(&mut self, columns: usize, matrices: usize, counts: usize) -> Result<(), Mismatch> {
        let len = columns.checked_mul(matrices).ok_or(Mismatch)?;
        if self.sums.is_empty() {
            self.sums.resize(len, 0.0);
            self.counts.resize(counts, 0);
        }
        if self.sums.len() == len && !self.counts.is_empty() { Ok(()) } else { Err(Mismatch) }
    }

    /// Add the input of a stack of `matrices`; an input with more layers than that goes round.
    pub(super) fn add(&mut self, input: View<'_, f32>, matrices: [usize; 2]) -> Result<(), Mismatch> {
        let [columns, rows, inner, outer] = input.size;
        let stack = matrices[0].checked_mul(matrices[1]).filter(|&stack| stack > 0).ok_or(Mismatch)?;
        self.shape(columns, stack, 1)?;
        for i3 in 0..outer {
            for i2 in 0..inner {
                let matrix = (i3 % matrices[1]) * matrices[0] + i2 % matrices[0];
                let sums = &mut self.sums[matrix * columns..][..columns];
                for i1 in 0..rows {
                    add_squares(sums, input.row([i1, i2, i3]).ok_or(Mismatch)?);
                }
            }
        }
        let rows = (rows * inner * outer / stack) as u64;
        self.counts.iter_mut().for_each(|count| *count += rows);
        Ok(())
    }

    /// Add the input of `experts`. `input` is `[columns, slots or 1, tokens]`, `ids` `[slots, tokens]` says which expert
    /// each slot of a token goes to.
    pub(super) fn add_routed(
        &mut self,
        input: View<'_, f32>,
        ids: View<'_, i32>,
        experts: usize,
    ) -> Result<(), Mismatch> {
        let ([columns, slots, tokens, outer], [chosen, routed, ..]) = (input.size, ids.size);
        if outer != 1 || tokens != routed || slots == 0 {
            return Err(Mismatch);
        }
        self.shape(columns, experts, experts)?;
        if self.counts.len() != experts {
            return Err(Mismatch);
        }
        for token in 0..tokens {
            for (slot, &expert) in ids.row([token, 0, 0]).ok_or(Mismatch)?[..chosen].iter().enumerate() {
                let expert =
                    usize::try_from(expert).ok().filter(|&expert| expert < experts).ok_or(Mismatch)?;
                let row = input.row([slot % slots, token, 0]).ok_or(Mismatch)?;
                add_squares(&mut self.sums[expert * columns..][..columns], row);
                self.counts[expert] += 1;
            }
        }
        Ok(())
    }
}

fn add_squares(sums: &mut [f32], row: &[f32]) {
    for (sum, x) in sums.iter_mut().zip(row) {
        *sum += x * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of numbers that lie side by side.
    fn view<T>(data: &[T], size: [usize; 4]) -> View<'_, T> {
        let [a, b, c, _] = size;
        View { data, size, stride: [1, a, a * b, a * b * c] }
    }

    #[test]
    fn sums_squares_by_column() {
        let mut squares = Squares::default();
        let input = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        squares.add(view(&input, [2, 3, 1, 1]), [1, 1]).unwrap();
        assert_eq!(squares, Squares { sums: vec![35.0, 56.0], counts: vec![3] });
        squares.add(view(&input, [2, 1, 3, 1]), [1, 1]).unwrap();
        assert_eq!((squares.counts, squares.sums[0]), (vec![6], 70.0));
    }

    #[test]
    fn a_stack_of_matrices_has_sums_of_its_own_and_one_count() {
        let mut squares = Squares::default();
        let input = [1.0, 2.0, 3.0, 4.0];
        squares.add(view(&input, [1, 1, 4, 1]), [2, 1]).unwrap();
        assert_eq!(squares, Squares { sums: vec![10.0, 20.0], counts: vec![2] });
        assert_eq!(squares.width(), 2);
        assert_eq!(squares.add(view(&input, [1, 1, 4, 1]), [4, 1]), Err(Mismatch));
        assert_eq!(squares.add(view(&input, [1, 4, 1, 1]), [0, 1]), Err(Mismatch));
    }

    #[test]
    fn experts_get_what_is_sent_to_them() {
        let mut squares = Squares::default();
        let input = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        // One row for each token, shared by two slots, whose ids lie three apart.
        let ids = [0, 2, 9, 2, 0, 9, 2, 0];
        let ids = View { data: &ids, size: [2, 3, 1, 1], stride: [1, 3, 9, 9] };
        squares.add_routed(view(&input, [2, 1, 3, 1]), ids, 4).unwrap();
        assert_eq!(squares.counts, [3, 0, 3, 0]);
        assert_eq!(squares.sums, [14.0, 1400.0, 0.0, 0.0, 14.0, 1400.0, 0.0, 0.0]);
        // A row for each slot.
        squares.add_routed(view(&input, [1, 2, 3, 1]), ids, 8).unwrap_err();
        let mut squares = Squares::default();
        squares.add_routed(view(&input, [1, 2, 3, 1]), ids, 3).unwrap();
        assert_eq!(
            (squares.sums, squares.counts),
            (vec![1.0 + 400.0 + 900.0, 0.0, 100.0 + 4.0 + 9.0], vec![3, 0, 3])
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let input = [1.0; 6];
        let ids = |data: &'static [i32], size| View { data, size, stride: [1, 2, 2, 2] };
        for (size, ids) in [
            ([2, 1, 3, 1], ids(&[0, 1, 0, 1, 0, 4], [2, 3, 1, 1])),
            ([2, 1, 3, 1], ids(&[0, 1, 0, 1, 0, -1], [2, 3, 1, 1])),
            ([2, 1, 3, 1], ids(&[0, 1, 0, 1], [2, 3, 1, 1])),
            ([2, 1, 3, 1], ids(&[0, 1, 0, 1], [2, 2, 1, 1])),
            ([2, 1, 4, 1], ids(&[0, 1, 0, 1, 0, 1, 0, 1], [2, 4, 1, 1])),
            ([2, 0, 3, 1], ids(&[0, 1, 0, 1, 0, 1], [2, 3, 1, 1])),
            ([1, 1, 3, 2], ids(&[0, 1, 0, 1, 0, 1], [2, 3, 1, 1])),
        ] {
            let mut squares = Squares::default();
            assert_eq!(squares.add_routed(view(&input, size), ids, 4), Err(Mismatch), "{size:?}");
        }
        assert_eq!(Squares::default().add(view(&input, [7, 1, 1, 1]), [1, 1]), Err(Mismatch));
        assert_eq!(Squares::default().width(), 0);
    }
}
