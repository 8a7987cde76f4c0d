//! The limit of open files: each connection is one, and the usual soft limit of 1,024 is meant for
//! programs of another kind.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Caps;

/// Descriptors for everything but incoming connections: deliveries (512), calls of modules (256),
/// connections that are kept for the next of either (at most a sixteenth of the limit), the store, files.
pub(crate) const OTHERS: u64 = 3072;

/// The caps of both listeners that this process's limit of open files allows. The soft limit is raised
/// as far as the hard limit lets it. Where that is too low, the public listener gets three eighths of it
/// and operators a sixteenth, so that the rest is the store's, the modules' and the deliveries', however
/// many connect: of 1,024 it is 576, for 256 calls and, where files are that few, 128 deliveries.
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

/// Raises the soft limit; the limit where it stays below what is wanted.
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
