//! CUDA, in a build that has it: does the driver suit this build, and this build the GPU?

use super::Check;
use crate::engine::Device;
use crate::engine::cuda::{self, Code, Cuda, Version};
use crate::error::Error;

const NAME: &str = "cuda";

/// `None` in a build without CUDA.
pub(super) fn check(devices: &[Device]) -> Option<Check> {
    cuda::look(devices).map(|cuda| judge(&cuda))
}

fn judge(cuda: &Cuda) -> Check {
    let built: Vec<String> = cuda.built_for.iter().copied().map(dotted).collect();
    let found = format!("CUDA {}, code for compute capability {}", dotted(cuda.runtime), built.join(", "));
    let Some(driver) = cuda.driver else {
        return Check::warn(NAME, format!("{found}; no NVIDIA driver is found"), "nvidia-smi");
    };
    let found = format!("{found}; the driver knows CUDA {}", dotted(driver));
    // Within a major version newer runtimes run on older drivers: CUDA Compatibility, "Minor Version Compatibility".
    if driver.0 < cuda.runtime.0 {
        let hint = format!("install a newer NVIDIA driver, or build with CUDA {}", driver.0);
        return Check::fail(NAME, Error::failed(found).hint(hint));
    }
    let gpus: Vec<String> =
        cuda.gpus.iter().map(|(name, capability)| format!("{name} is {}", dotted(*capability))).collect();
    if gpus.is_empty() {
        return Check::warn(NAME, format!("{found}; no GPU answers"), "nvidia-smi");
    }
    let found = format!("{found}; {}", gpus.join(", "));
    let lacks = |code| cuda.gpus.iter().find(|(_, capability)| cuda.code_for(*capability) == code);
    if let Some((name, capability)) = lacks(Code::Missing) {
        let message = format!("{found}: no code of this build runs on {name}");
        return Check::fail(NAME, Error::failed(message).hint(rebuild(*capability)));
    }
    match lacks(Code::Older) {
        Some((name, capability)) => Check::warn(
            NAME,
            format!("{found}: the driver has to compile for {name} when models are first used, if it can"),
            rebuild(*capability),
        ),
        None => Check::ok(NAME, found),
    }
}

fn dotted((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

fn rebuild((major, minor): Version) -> String {
    format!("CMAKE_CUDA_ARCHITECTURES={major}{minor} cargo install --path . --features cuda")
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn driver_build_and_gpu_must_suit_each_other() {
        const BUILD: &str = "CUDA 13.0, code for compute capability 8.0, 9.0";
        let rebuild = |n| format!("CMAKE_CUDA_ARCHITECTURES={n} cargo install --path . --features cuda");
        let later = "the driver has to compile for CUDA0 when models are first used, if it can";
        for (driver, gpu, state, found, next) in [
            (None, None, State::Warn, "; no NVIDIA driver is found".to_owned(), "nvidia-smi".to_owned()),
            (
                Some((12, 8)),
                None,
                State::Fail,
                "; the driver knows CUDA 12.8".to_owned(),
                "install a newer NVIDIA driver, or build with CUDA 12".to_owned(),
            ),
            (
                Some((13, 1)),
                None,
                State::Warn,
                "; the driver knows CUDA 13.1; no GPU answers".to_owned(),
                "nvidia-smi".to_owned(),
            ),
            (
                Some((13, 0)),
                Some((9, 0)),
                State::Ok,
                "; the driver knows CUDA 13.0; CUDA0 is 9.0".to_owned(),
                String::new(),
            ),
            (
                Some((13, 0)),
                Some((12, 0)),
                State::Warn,
                format!("; the driver knows CUDA 13.0; CUDA0 is 12.0: {later}"),
                rebuild(120),
            ),
            (
                Some((13, 0)),
                Some((7, 5)),
                State::Fail,
                "; the driver knows CUDA 13.0; CUDA0 is 7.5: no code of this build runs on CUDA0".to_owned(),
                rebuild(75),
            ),
        ] {
            let gpus = gpu.map(|capability| ("CUDA0".to_owned(), capability)).into_iter().collect();
            let cuda = Cuda { runtime: (13, 0), driver, built_for: vec![(8, 0), (9, 0)], gpus };
            let check = judge(&cuda);
            assert_eq!((check.state, check.found), (state, format!("{BUILD}{found}")));
            assert_eq!(check.next.unwrap_or_default(), next);
        }
    }
}
