//! Nonces of resellers' signed requests: each is good for one request.

use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::policy::RateLimit;
use kassette_domain::signing::{NONCE_LIFE, Nonce, Stamp};
use kassette_store::{Fault, Reservation, Reserved};

use crate::Gateway;

/// Number of keys whose full rate fits into a reseller's nonces: two, and their successors during a rotation.
const KEYS: usize = 4;

/// Reason why a nonce was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NonceError {
    /// Another request has used it.
    #[error("the nonce was used before: send a new one, and keep the client_ref")]
    Used,
    /// The reseller has the maximum number of nonces in use.
    #[error("too many signed requests within ten minutes; try again later")]
    TooMany {
        /// Earliest time at which a nonce becomes free.
        retry_after: Duration,
    },
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Maximum number of nonces that a reseller may have in use: as many as [`KEYS`] keys can use within a
/// nonce's life at their rate limit. With the default of 50 per second and bursts of 100 this is 120,600,
/// about 3 MB of rows and 7 MB of memory. Further keys share this number.
fn at_most(limit: RateLimit) -> usize {
    let life = usize::try_from(NONCE_LIFE.as_secs()).unwrap_or(usize::MAX);
    let of_a_key = (limit.per_second as usize)
        .saturating_mul(life)
        .saturating_add(limit.burst as usize);
    of_a_key.saturating_mul(KEYS)
}

impl Gateway {
    /// Reserves a nonce for one request whose signature was verified. It stays reserved if the request fails
    /// afterwards, and across restarts.
    ///
    /// # Errors
    /// See [`NonceError`].
    pub async fn take_nonce(
        &self,
        reseller: ResellerId,
        nonce: Nonce,
        stamp: Stamp,
    ) -> Result<(), NonceError> {
        let now = self.now();
        let reservation = Reservation {
            reseller,
            nonce,
            until: stamp.nonce_until(now),
            at_most: at_most(self.settings().rate_limit),
        };
        match self.store().reserve_nonce(reservation, now).await? {
            Reserved::Fresh => Ok(()),
            Reserved::Used => Err(NonceError::Used),
            Reserved::Full { next } => Err(NonceError::TooMany {
                retry_after: next.since(now),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_at_its_limit_never_runs_out_of_nonces() {
        let limit = RateLimit {
            per_second: 50,
            burst: 100,
        };
        assert_eq!(at_most(limit), 4 * (50 * 601 + 100));
        let huge = RateLimit {
            per_second: u32::MAX,
            burst: u32::MAX,
        };
        assert!(at_most(huge) >= at_most(limit));
    }
}
