//! Metrics of this process from the operating system, with the standard names of Prometheus client libraries.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, boot_time_secs, page_size, ticks_per_second};

/// Updates the metrics. Reads some files of `/proc`, and a directory entry per open file.
///
/// # Errors
/// If `/proc` cannot be read. The gauges keep their values.
#[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
pub(super) fn set() -> ProcResult<()> {
    let process = Process::myself()?;
    let (stat, limits) = (process.stat()?, process.limits()?);
    let second = ticks_per_second().max(1);
    // Counters are integers here.
    metrics::counter!("process_cpu_seconds_total").absolute((stat.utime + stat.stime) / second);
    let began = boot_time_secs()? as f64 + stat.starttime as f64 / second as f64;
    // No limit is reported as the largest number, as in other client libraries.
    let limit = |value| match value {
        LimitValue::Value(value) => value as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    };
    for (name, value) in [
        ("process_start_time_seconds", began),
        (
            "process_resident_memory_bytes",
            (stat.rss * page_size()) as f64,
        ),
        ("process_virtual_memory_bytes", stat.vsize as f64),
        (
            "process_virtual_memory_max_bytes",
            limit(limits.max_address_space.soft_limit),
        ),
        ("process_open_fds", process.fd_count()? as f64),
        ("process_max_fds", limit(limits.max_open_files.soft_limit)),
        ("process_threads", stat.num_threads as f64),
    ] {
        metrics::gauge!(name).set(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::for_tests;

    #[test]
    fn the_system_says_what_this_process_uses() {
        let (recorder, measured) = for_tests();
        metrics::with_local_recorder(&recorder, || set().unwrap());
        let text = measured.render();
        let of = |name: &str| -> f64 {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{name} ")));
            let value = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
            value.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(of("process_resident_memory_bytes") > 1e6);
        assert!(of("process_virtual_memory_bytes") > of("process_resident_memory_bytes"));
        assert!(of("process_open_fds") > 2.0 && of("process_max_fds") > of("process_open_fds"));
        assert!(of("process_threads") >= 1.0);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let began = of("process_start_time_seconds");
        assert!(
            began < now + 60.0 && began > now - 86_400.0,
            "{began} {now}"
        );
        assert!(
            text.contains("# TYPE process_cpu_seconds_total counter"),
            "{text}"
        );
    }
}
