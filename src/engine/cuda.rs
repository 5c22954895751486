//! What CUDA says of itself: its versions, and for which GPUs this build holds code.
#![cfg_attr(feature = "cuda", expect(unsafe_code, reason = "CUDA's runtime, linked with llama.cpp, is C"))]

use super::{Device, placement};

/// A version such as 13.0, or the compute capability of a GPU, such as 9.0.
pub(crate) type Version = (u32, u32);

/// CUDA in a build that has it.
#[derive(Debug)]
pub(crate) struct Cuda {
    /// The one that this build was made with.
    pub(crate) runtime: Version,
    /// The newest that the driver knows; `None` without a driver.
    pub(crate) driver: Option<Version>,
    /// The compute capabilities that there is code for.
    pub(crate) built_for: Vec<Version>,
    /// The GPUs that are seen: name and compute capability.
    pub(crate) gpus: Vec<(String, Version)>,
}

/// What this build has for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Its own machine code.
    Ready,
    /// None but that for older GPUs, which the driver may be able to compile for it.
    Older,
    Missing,
}

impl Cuda {
    /// Machine code runs on GPUs of the same major version and the same minor version or a later one, and portable code
    /// (PTX) on all later ones: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".
    pub(crate) fn code_for(&self, (major, minor): Version) -> Code {
        if self.built_for.iter().any(|built| built.0 == major && built.1 <= minor) {
            Code::Ready
        } else if self.built_for.iter().any(|built| built.0 < major) {
            Code::Older
        } else {
            Code::Missing
        }
    }
}

/// Ask CUDA; `None` in a build without it.
pub(crate) fn look(devices: &[Device]) -> Option<Cuda> {
    let (runtime, driver) = runtime::versions()?;
    let capability = |device: &Device| {
        let number = device.name.strip_prefix("CUDA")?.parse().ok()?;
        Some((device.name.clone(), runtime::capability(number)?))
    };
    Some(Cuda {
        runtime,
        driver,
        built_for: architectures(&placement::system_info()),
        gpus: devices.iter().filter_map(capability).collect(),
    })
}

/// `CUDA : ARCHS = 890,900 | …` has code for 8.9 and 9.0.
fn architectures(info: &str) -> Vec<Version> {
    let list = info.split(" | ").find_map(|part| part.split_once("ARCHS = ")).map_or("", |(_, list)| list);
    let numbers = list.split(',').filter_map(|number| number.trim().parse::<u32>().ok());
    numbers.map(|number| (number / 100, number / 10 % 10)).collect()
}

/// CUDA counts 13.0 as 13000.
#[cfg(any(feature = "cuda", test))]
fn version(number: i32) -> Option<Version> {
    let number = u32::try_from(number).ok().filter(|number| *number > 0)?;
    Some((number / 1000, number % 1000 / 10))
}

#[cfg(feature = "cuda")]
mod runtime {
    use super::{Version, version};

    // From CUDA's cuda_runtime_api.h; every call answers 0 when it went well.
    unsafe extern "C" {
        fn cudaRuntimeGetVersion(version: *mut i32) -> i32;
        fn cudaDriverGetVersion(version: *mut i32) -> i32;
        fn cudaDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) -> i32;
    }

    /// `cudaDevAttrComputeCapabilityMajor` and `…Minor`.
    const CAPABILITY: [i32; 2] = [75, 76];

    pub(super) fn versions() -> Option<(Version, Option<Version>)> {
        let (mut runtime, mut driver) = (0, 0);
        // SAFETY: both write one number to where a live one is. Without a driver its version is 0.
        let answers =
            unsafe { [cudaRuntimeGetVersion(&raw mut runtime), cudaDriverGetVersion(&raw mut driver)] };
        let known = |answer: i32, number| if answer == 0 { version(number) } else { None };
        Some((known(answers[0], runtime)?, known(answers[1], driver)))
    }

    pub(super) fn capability(device: i32) -> Option<Version> {
        let ask = |attribute| {
            let mut value = 0;
            // SAFETY: writes one number to where a live one is; a device that is not there is an error.
            let answer = unsafe { cudaDeviceGetAttribute(&raw mut value, attribute, device) };
            if answer == 0 { u32::try_from(value).ok() } else { None }
        };
        Some((ask(CAPABILITY[0])?, ask(CAPABILITY[1])?))
    }
}

#[cfg(not(feature = "cuda"))]
mod runtime {
    use super::Version;

    pub(super) fn versions() -> Option<(Version, Option<Version>)> {
        None
    }

    pub(super) fn capability(_: i32) -> Option<Version> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_runs_the_code_of_its_own_generation() {
        let built_for = vec![(7, 5), (8, 6), (9, 0)];
        let cuda = Cuda { runtime: (13, 0), driver: None, built_for, gpus: Vec::new() };
        for (capability, expected) in [
            ((9, 0), Code::Ready),
            ((8, 6), Code::Ready),
            ((8, 9), Code::Ready),
            ((8, 0), Code::Older),
            ((12, 0), Code::Older),
            ((7, 0), Code::Missing),
            ((6, 1), Code::Missing),
        ] {
            assert_eq!(cuda.code_for(capability), expected, "{capability:?}");
        }
    }

    #[test]
    fn numbers_become_versions() {
        let info = "CUDA : ARCHS = 750,890,1200 | NO_VMM = 1 | CPU : SSE3 = 1 | ";
        assert_eq!(architectures(info), [(7, 5), (8, 9), (12, 0)]);
        assert_eq!(architectures("CUDA : ARCHS = 900 | "), [(9, 0)]);
        assert_eq!(architectures("CPU : SSE3 = 1 | "), []);
        assert_eq!([version(13000), version(12080), version(0)], [Some((13, 0)), Some((12, 8)), None]);
    }

    #[test]
    fn only_a_build_with_cuda_asks_it() {
        assert_eq!(look(&[]).is_some(), cfg!(feature = "cuda"));
    }
}
