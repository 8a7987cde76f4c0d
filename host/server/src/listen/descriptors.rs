//! Limit of open files. Each connection needs a descriptor, and the usual soft limit of 1,024 is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Caps;

/// Descriptors for everything except incoming connections: deliveries (512), calls of modules (256), idle
/// connections kept for reuse by either (at most a sixteenth of the limit), the store, and files.
pub(crate) const OTHERS: u64 = 3072;

/// Reduces the connection caps of both listeners to what the process's limit of open files allows, after raising
/// the soft limit as far as the hard limit allows. If the limit is too low, the public listener gets three eighths
/// of it and the admin listener a sixteenth, so that the rest stays free for the store, modules and deliveries. Of
/// 1,024, that is 576: enough for 256 calls and, in this case, 128 deliveries.
pub(crate) fn within_limit(public: Caps, admin: Caps) -> (Caps, Caps) {
    let wanted = [public.overall, admin.overall].into_iter();
    let wanted = wanted.fold(OTHERS, |sum, each| {
        sum.saturating_add(u64::try_from(each).unwrap_or(u64::MAX))
    });
    let Some(possible) = raise(wanted) else {
        return (public, admin);
    };
    let possible = usize::try_from(possible).unwrap_or(usize::MAX);
    let (public, admin) = (
        public.at_most(possible / 8 * 3),
        admin.at_most(possible / 16),
    );
    tracing::warn!(
        descriptors.wanted = wanted,
        descriptors.possible = possible,
        connections.public = public.overall,
        connections.admin = admin.overall,
        "the limit of open files is too low for limits.connections, so fewer are taken; raise it \
         (LimitNOFILE, ulimit -n) or lower that setting"
    );
    (public, admin)
}

/// Raises the soft limit. Returns the resulting limit if it is lower than `wanted`.
fn raise(wanted: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return None;
    }
    let possible = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(possible),
            ..limit
        },
    );
    match raised {
        Ok(()) if possible >= wanted => None,
        Ok(()) => Some(possible),
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_fits_what_is_wanted_or_is_as_high_as_it_can_be() {
        let missing = raise(3000);
        let limit = getrlimit(Resource::Nofile);
        let fits = limit.current.is_none_or(|current| current >= 3000);
        assert!(fits || limit.current == limit.maximum, "{limit:?}");
        assert_eq!(missing.is_some(), !fits);
    }

    #[test]
    fn caps_shrink_to_what_the_process_may_open() {
        let caps = Caps::default();
        let (public, admin) = within_limit(caps, caps);
        let limit = getrlimit(Resource::Nofile).current;
        let held = u64::try_from(public.overall + admin.overall).unwrap();
        assert!(limit.is_none_or(|limit| held < limit));
        let most = usize::try_from(i64::MAX).unwrap();
        let endless = Caps {
            overall: most / 4,
            per_address: most / 4,
            ..caps
        };
        let (public, admin) = within_limit(endless, endless);
        if let Some(limit) = getrlimit(Resource::Nofile).current {
            let limit = usize::try_from(limit).unwrap();
            assert_eq!((public.overall, admin.overall), (limit / 8 * 3, limit / 16));
            assert!(public.per_address <= public.overall);
        }
    }
}
