//! What this machine gives to this process: cores and memory. Linux tells most; elsewhere less is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Threads to compute with: the physical cores among those that affinity and control groups leave to the process,
/// all of the logical ones where there are only a few.
pub(crate) fn threads() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    match physical_cores() {
        Some(physical) if physical > 2 => allowed.min(physical),
        _ => allowed,
    }
}

/// The physical cores that this process may use: the threads of llama.cpp's own tools.
pub(crate) fn cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().map_or(allowed, |cores| cores.clamp(1, allowed))
}

/// Numbers of threads that may be worth a try: all, one for each core, and parts of those.
pub(crate) fn thread_counts() -> Vec<usize> {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    counts(allowed, cores())
}

fn counts(allowed: usize, cores: usize) -> Vec<usize> {
    let mut counts = vec![allowed, cores, cores * 3 / 4, cores / 2, cores / 4];
    counts.retain(|&count| count > 0);
    counts.dedup();
    counts
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

/// Bytes that can be used without swapping, within the limits of the control groups that the process is in. `None`
/// where it can't be told.
pub(crate) fn memory_available() -> Option<u64> {
    let free = kib_line(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).ok();
    let limits = group_folders(&groups).into_iter().filter_map(|folder| {
        let (max, current) = (read(&folder, "memory.max")?, read(&folder, "memory.current")?);
        group_available(&max, &current, &read(&folder, "memory.stat").unwrap_or_default())
    });
    Some(limits.fold(free, u64::min))
}

/// Bytes of memory that this process has used at most, and uses now. Pages of a model's file count while they are mapped.
pub(crate) fn memory_used() -> Option<(u64, u64)> {
    used(&fs::read_to_string("/proc/self/status").ok()?)
}

/// From now on, the most is what is used from here on.
pub(crate) fn forget_memory_peak() {
    // Where the kernel does not know it, the peak is that of the whole process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// How long the threads of this process have had a processor.
pub(crate) fn processor_time() -> Option<Duration> {
    run_time(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The times in the program and in the kernel, of `/proc/PID/stat`: its 14th and 15th field, in hundredths of a second. The
/// second field is a name in parentheses that may hold anything.
fn run_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let hundredths = times.next()?.ok()?.checked_add(times.next()?.ok()?)?;
    hundredths.checked_mul(10).map(Duration::from_millis)
}

/// Bytes that this process has made the disks read.
pub(crate) fn disk_reads() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok())
}

fn used(status: &str) -> Option<(u64, u64)> {
    Some((kib_line(status, "VmHWM:")?, kib_line(status, "VmRSS:")?))
}

/// Bytes of a line such as `VmRSS:   2048 kB`.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The folder of the process's group of version 2 and those above it, each of which can have a limit.
fn group_folders(groups: &str) -> Vec<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    root.join(path).ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect()
}

/// What a group may still use: its limit less its use, in which pages of files count that can be dropped at any time,
/// a model's own among them. `None` without a limit.
fn group_available(max: &str, current: &str, stat: &str) -> Option<u64> {
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let files = stat.lines().find_map(|line| line.strip_prefix("file ")?.trim().parse().ok()).unwrap_or(0);
    Some(max.saturating_sub(current.saturating_sub(files)))
}

/// The version of NVIDIA's kernel driver, where it is loaded.
pub(crate) fn nvidia_driver() -> Option<String> {
    driver_version(&fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// The first word of the line on the kernel module that is a version.
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
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
        let meminfo = "MemTotal:  9 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(kib_line(meminfo, "MemAvailable:"), Some(2_097_152));
        assert_eq!(kib_line("MemTotal: 9 kB\n", "MemAvailable:"), None);
        assert_eq!(used("VmHWM:\t 3 kB\nVmRSS:\t 2 kB\n"), Some((3072, 2048)));
        assert_eq!(used("VmHWM: 3 kB\n"), None);
    }

    #[test]
    fn a_groups_file_pages_are_free_for_use() {
        for (max, current, stat, expected) in [
            ("max\n", "5\n", "", None),
            ("100\n", "30\n", "", Some(70)),
            ("100\n", "90\n", "anon 10\nfile 80\nfile_mapped 7\n", Some(90)),
            ("100\n", "120\n", "file 10\n", Some(0)),
        ] {
            assert_eq!(group_available(max, current, stat), expected);
        }
        let folders = group_folders("1:cpu:/x\n0::/a/b\n");
        assert_eq!(folders, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(PathBuf::from));
        assert_eq!(group_folders("").len(), 1);
    }

    #[test]
    fn the_kernel_says_how_long_a_process_ran() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 25 13";
        assert_eq!(run_time(stat), Some(Duration::from_millis(1750)));
        assert_eq!(run_time("7 (a) S 1 2 3"), None);
    }

    #[test]
    fn the_driver_says_its_version() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\nGCC version: 12.3.0\n";
        assert_eq!(driver_version(text).as_deref(), Some("580.82.07"));
        assert_eq!(driver_version("GCC version: 12.3.0\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_is_that_since_it_was_forgotten() {
        let large = vec![1_u8; 512 << 20];
        let (before, _) = memory_used().unwrap();
        assert!(before >= 512 << 20 && disk_reads().is_some());
        drop(std::hint::black_box(large));
        forget_memory_peak();
        let (after, now) = memory_used().unwrap();
        // What the other tests take in the meantime is less.
        assert!(now <= after && after < before - (256 << 20), "{before} {after} {now}");
    }

    #[test]
    fn threads_to_try_are_all_and_parts_of_the_cores() {
        for (allowed, cores, expected) in
            [(1, 1, vec![1]), (2, 2, vec![2, 1]), (4, 2, vec![4, 2, 1]), (32, 16, vec![32, 16, 12, 8, 4])]
        {
            assert_eq!(counts(allowed, cores), expected);
        }
    }

    #[test]
    fn there_is_at_least_one_thread() {
        assert!(threads() >= 1 && cores() >= 1);
    }
}
