//! Values that `dev` uses in place of those that an operator configures for `serve`.

use kassette_domain::policy::RateLimit;
use kassette_domain::release::{Draft, Release};

/// High enough for scripts that send requests in a loop.
pub(crate) const RATE_LIMIT: RateLimit = RateLimit {
    per_second: 10_000,
    burst: 10_000,
};

/// A ZIP archive without files. The release below has the digest and size of these bytes.
const EMPTY_ZIP: [u8; 22] = *b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The plugin release that `dev` publishes, so that a shop plugin finds one. It describes no real archive.
pub(super) fn release() -> Option<Release> {
    let draft = Draft {
        version: "1.0.0".into(),
        download_url: "https://downloads.example/kassette-woocommerce-1.0.0.zip".into(),
        sha256: kassette_domain::id::Digest::hash(&EMPTY_ZIP).to_string(),
        size_bytes: EMPTY_ZIP.len() as u64,
        released_at: "2026-01-01T00:00:00Z".into(),
        requires_wordpress: "6.4".into(),
        tested_wordpress: "6.8".into(),
        requires_woocommerce: "8.2".into(),
        requires_php: "8.1".into(),
        changelog_url: "https://downloads.example/kassette-woocommerce/changelog".into(),
    };
    Release::publish(draft).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dev_publishes_a_release() {
        assert!(super::release().is_some());
    }
}
