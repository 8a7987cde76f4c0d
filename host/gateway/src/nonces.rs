//! Nonces of resellers' signed requests: each is good for one request.

use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::policy::RateLimit;
use kassette_domain::signing::{NONCE_LIFE, Nonce, Stamp};
use kassette_store::{Fault, Reservation, Reserved};

use crate::Gateway;

/// Keys whose full rate a reseller's nonces have room for: two, and their successors while they are
/// rotated.
const KEYS: usize = 4;

/// Why a nonce is not this request's.
#[derive(Debug, thiserror::Error)]
pub enum NonceError {
    /// Another request has it.
    #[error("the nonce was used before: send a new one, and keep the client_ref")]
    Used,
    /// The reseller has as many taken as it may.
    #[error("too many signed requests within ten minutes; try again later")]
    TooMany {
        /// When the next becomes free, at the soonest.
        retry_after: Duration,
    },
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Most nonces that a reseller may have taken at once: as many as [`KEYS`] keys can use within a
/// nonce's life at their limit. With the default of 50 a second and bursts of 100 that is 120,600, some
/// 3 MB of rows and 7 MB of memory. Keys beyond that share it.
fn at_most(limit: RateLimit) -> usize {
    let life = usize::try_from(NONCE_LIFE.as_secs()).unwrap_or(usize::MAX);
    let of_a_key = (limit.per_second as usize)
        .saturating_mul(life)
        .saturating_add(limit.burst as usize);
    of_a_key.saturating_mul(KEYS)
}

impl Gateway {
    /// Takes a nonce for one request, whose signature has proved right. It is taken even where the
    /// request fails afterwards, and across restarts.
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
