//! What this machine gives to this process: cores and memory. Linux tells most; elsewhere less is known.

use std::fs;

/// Threads to compute with: the physical cores among those that affinity and control groups leave to the process,
/// all of the logical ones where there are only a few.
pub(crate) fn threads() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    match physical_cores() {
        Some(physical) if physical > 2 => allowed.min(physical),
        _ => allowed,
    }
}

/// The distinct cores among the logical processors that this process may run on.
fn physical_cores() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let siblings = |cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).ok()
    };
    let cores: Option<std::collections::BTreeSet<String>> =
        parse_list(list).into_iter().map(siblings).collect();
    cores.map(|set| set.len())
}

/// `0-2,5` is 0, 1, 2, 5.
fn parse_list(list: &str) -> Vec<usize> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.parse::<usize>().ok()?..=to.parse().ok()?)
        })
        .flatten()
        .collect()
}

/// Bytes that can be used without swapping, within the control group's limit. `None` where it can't be told.
pub(crate) fn memory_available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let free = mem_available(&meminfo)?;
    let group =
        |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let limit = match (group("memory.max"), group("memory.current")) {
        (Some(max), Some(current)) => max.saturating_sub(current),
        _ => u64::MAX,
    };
    Some(free.min(limit))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_lists() {
        for (list, expected) in [
            ("0-2,5\n", vec![0, 1, 2, 5]),
            ("\t7", vec![7]),
            ("", vec![]),
            ("x,3-1", vec![]),
            ("0,2", vec![0, 2]),
        ] {
            assert_eq!(parse_list(list), expected, "{list:?}");
        }
        assert_eq!(mem_available("MemTotal:  9 kB\nMemAvailable:   2048 kB\n"), Some(2_097_152));
        assert_eq!(mem_available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn there_is_at_least_one_thread() {
        assert!(threads() >= 1);
    }
}
