//! The limit of open files: each connection is one, and the usual soft limit of 1,024 is meant for
//! programs of another kind.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but public connections: the store, modules, operators, vendors.
const OTHERS: u64 = 1024;

/// Raises this process's soft limit so that `connections` fit, as far as the hard limit allows, and
/// says where it does not.
pub(crate) fn raise(connections: usize) {
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
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
        Ok(()) if possible >= wanted => {
            tracing::debug!(descriptors = possible, "raised the limit of open files");
        }
        _ => tracing::warn!(
            descriptors.wanted = wanted,
            descriptors.possible = possible,
            "the limit of open files is too low for limits.connections; raise it (LimitNOFILE, \
             ulimit -n) or lower that setting"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_fits_what_is_wanted_or_is_as_high_as_it_can_be() {
        raise(3000);
        let limit = getrlimit(Resource::Nofile);
        let fits = limit.current.is_none_or(|current| current >= 3000 + OTHERS);
        assert!(fits || limit.current == limit.maximum, "{limit:?}");
    }
}
