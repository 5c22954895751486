//! How many additions and multiplications a device does in a second with matrices like those of a model: what limits
//! the reading of a prompt, and where memory is fast the tokens of an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ggml::{Backend, Product};
use super::{BATCH, Device, DeviceKind};
use crate::error::{Error, Result};
use crate::human::Bytes;
use crate::numbers::float;

/// How long to multiply, in all; and at least so many times each.
const BUDGET: Duration = Duration::from_millis(500);
const TIMES: u32 = 2;
/// The most numbers of a matrix: enough to keep a CPU or a GPU busy, and few enough for the time.
const NUMBERS: u64 = 16 << 20;
const NUMBERS_GPU: u64 = 64 << 20;
/// A GPU with fewer free bytes is not measured: where a pool inside of ggml cannot grow, ggml ends the process.
const LEAST_FREE: u64 = 512 << 20;
/// For one token at a time: few enough for the cache of a processor's core, so that memory is of no matter; and as often
/// in a row as a model has matrices in a few layers.
const NUMBERS_ONE: u64 = 1 << 19;
const ROW: usize = 32;
/// The number of the type of 16-bit floats. It stands in for types that a device cannot multiply by.
pub(crate) const F16: u32 = 1;

/// What a matrix of a model is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// The number of the weights' type, in a file and in ggml.
    pub(crate) kind: u32,
    /// Numbers in a row.
    pub(crate) columns: u64,
    pub(crate) rows: u64,
}

/// Additions and multiplications per second by weights of some types.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Throughput(Vec<(u32, f64)>);

impl Throughput {
    #[cfg(test)]
    pub(crate) fn new(measured: Vec<(u32, f64)>) -> Self {
        Self(measured)
    }

    /// For one type; where it was not measured, the fastest of the others.
    pub(crate) fn of(&self, kind: u32) -> f64 {
        let fastest = || self.0.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
        self.0.iter().find(|(measured, _)| *measured == kind).map_or_else(fastest, |(_, speed)| *speed)
    }
}

/// What the weights are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The tokens of a batch. Other code does that than with one.
    Batch,
    One,
}

/// Multiply matrices like these. Weights lie where llama.cpp puts them, repacked where it repacks. `None` if the brake
/// stopped it.
pub(crate) fn measure(
    gpu: Option<&Device>,
    threads: usize,
    matrices: &[Matrix],
    by: By,
    brake: &AtomicBool,
) -> Result<Option<Throughput>> {
    let gpu = gpu.filter(|device| device.kind == DeviceKind::Gpu);
    if let Some(Device { name, free, .. }) = gpu.filter(|gpu| gpu.free < LEAST_FREE) {
        return Err(Error::failed(format!("{} free on {name} are too few to measure with", Bytes(*free))));
    }
    let budget = BUDGET / u32::try_from(matrices.len().max(1)).unwrap_or(1);
    let mut measured = Vec::new();
    for matrix in matrices {
        let Some(speed) = speed(gpu, threads, matrix, by, budget, brake)? else { return Ok(None) };
        measured.push((matrix.kind, speed));
    }
    Ok(Some(Throughput(measured)))
}

/// Additions and multiplications per second with one matrix.
fn speed(
    gpu: Option<&Device>,
    threads: usize,
    matrix: &Matrix,
    by: By,
    budget: Duration,
    brake: &AtomicBool,
) -> Result<Option<f64>> {
    let (most, batch, row) = match by {
        By::Batch => (NUMBERS, BATCH, 1),
        By::One => (NUMBERS_ONE, 1, ROW),
    };
    let (columns, rows) = gpu.map_or_else(|| size(matrix, most), |gpu| size_on_gpu(matrix, gpu.free));
    let open = |kind| Product::new(Backend::open(gpu, threads)?, kind, (columns, rows), batch.into(), row);
    let product = match open(matrix.kind)? {
        Some(product) => Some(product),
        None => open(F16)?,
    };
    let Some(product) = product else {
        return Err(Error::failed("the device multiplies nothing"));
    };
    product.run()?;
    let (began, mut best) = (Instant::now(), Duration::MAX);
    let mut times = 0;
    while times < TIMES || began.elapsed() < budget {
        if brake.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let start = Instant::now();
        product.run()?;
        best = best.min(start.elapsed());
        times += 1;
    }
    let work = 2.0 * float(columns.saturating_mul(rows)) * f64::from(batch) * float(row as u64);
    Ok(Some(work / best.as_secs_f64().max(1e-9)))
}

/// As many rows as take half of the free memory at the most. Weights have up to 4 bytes a number and are unpacked to as
/// many; what comes out has 4, and 2 more while it is made of 16-bit floats.
fn size_on_gpu(matrix: &Matrix, free: u64) -> (u64, u64) {
    let row = matrix.columns.saturating_mul(8).saturating_add(6 * u64::from(BATCH));
    let most = (free / 2 / row).saturating_mul(matrix.columns);
    size(matrix, most.min(NUMBERS_GPU))
}

/// Columns and rows of a matrix like the model's, with fewer rows where it is large. Repacking wants whole groups of
/// rows.
fn size(matrix: &Matrix, most: u64) -> (u64, u64) {
    const GROUP: u64 = 32;
    let rows = matrix.rows.min(most / matrix.columns.max(1)) / GROUP * GROUP;
    (matrix.columns, rows.max(GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: Matrix = Matrix { kind: F16, columns: 64, rows: 128 };

    #[test]
    fn large_matrices_are_cut_to_whole_groups_of_rows() {
        for (columns, rows, most, expected) in [
            (576, 1536, NUMBERS, (576, 1536)),
            (64, 100, NUMBERS, (64, 96)),
            (64, 3, NUMBERS, (64, 32)),
            (4096, 14_336, NUMBERS, (4096, 4096)),
            (4096, 14_336, NUMBERS_GPU, (4096, 14_336)),
            (0, 0, NUMBERS, (0, 32)),
        ] {
            assert_eq!(size(&Matrix { columns, rows, ..MATRIX }, most), expected);
        }
    }

    #[test]
    fn on_a_gpu_a_matrix_takes_half_of_what_is_free_at_the_most() {
        for (columns, rows, free, expected) in [
            (4096, 14_336, 80 << 30, (4096, 14_336)),
            (4096, 14_336, LEAST_FREE, (4096, 7488)),
            (640, 262_144, 80 << 30, (640, 104_832)),
            (640, 262_144, LEAST_FREE, (640, 32_768)),
            (u64::MAX, 1, LEAST_FREE, (u64::MAX, 32)),
        ] {
            assert_eq!(size_on_gpu(&Matrix { columns, rows, ..MATRIX }, free), expected);
        }
    }

    #[test]
    fn a_gpu_that_is_nearly_full_is_left_alone() {
        let gpu = Device {
            kind: DeviceKind::Gpu,
            // There is none with this number: whoever asks for it gets an error.
            index: usize::MAX,
            name: "CUDA0".to_owned(),
            description: String::new(),
            backend: String::new(),
            total: 80 << 30,
            free: LEAST_FREE - 1,
        };
        let refused = |gpu: &Device| {
            measure(Some(gpu), 1, &[MATRIX], By::Batch, &AtomicBool::new(false)).unwrap_err().message
        };
        assert_eq!(refused(&gpu), "536.9 MB free on CUDA0 are too few to measure with");
        assert_eq!(refused(&Device { free: LEAST_FREE, ..gpu }), "the device is gone");
    }

    #[test]
    fn what_was_not_measured_is_as_fast_as_the_fastest() {
        let measured = Throughput::new(vec![(8, 3.0), (2, 5.0)]);
        let speeds = [8, 2, 12].map(|kind| measured.of(kind));
        assert!(speeds.iter().zip([3.0, 5.0, 5.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{speeds:?}");
    }

    #[test]
    fn every_type_of_weights_is_multiplied() {
        // All that a file may have: the other numbers below the count of types are refused, as the next test sees.
        let kinds = [
            0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 29, 30, 34, 35, 39, 40,
            41, 42,
        ];
        let kinds = kinds.map(|kind| Matrix { kind, columns: 256, rows: 32 });
        let measured = measure(None, 1, &kinds, By::Batch, &AtomicBool::new(false)).unwrap().unwrap();
        assert_eq!(measured.0.len(), kinds.len());
        for kind in kinds {
            let speed = measured.of(kind.kind);
            assert!(speed.is_finite() && speed > 0.0, "{kind:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_matrix_is_refused() {
        let no_weights =
            [4, 5, 9, 15, 24, 25, 26, 27, 28, 31, 32, 33, 36, 37, 38, 43, u32::MAX].map(|kind| (kind, 256));
        for (kind, columns) in no_weights.into_iter().chain([(2, 33), (F16, 0)]) {
            let matrix = Matrix { kind, columns, ..MATRIX };
            let error = measure(None, 1, &[matrix], By::Batch, &AtomicBool::new(false)).unwrap_err();
            assert!(error.message.ends_with("cannot be measured"), "{error}");
        }
    }

    #[test]
    fn the_brake_stops_it() {
        assert_eq!(measure(None, 1, &[MATRIX], By::Batch, &AtomicBool::new(true)).unwrap(), None);
    }
}
