//! Settings of `kassette.toml` that need a restart.

use super::{MainFile, Profile};
use crate::admission::InFlightLimits;

impl MainFile {
    /// Names of the settings that differ in `new` and take effect only after a restart.
    pub(crate) fn restart_needed(&self, new: &Self, profile: Profile) -> Vec<&'static str> {
        // Lists all fields, so that a new setting does not compile without a decision.
        let Self {
            // Applied on each reload.
            alerts_url: _,
            drain_seconds: _,
            rate_limit: _,
            payments: _,
            rates: _,
            webhooks: _,
            retention: _,
            // `dev` has command-line options for these.
            public_url: _,
            listen,
            admin_listen,
            data_dir,
            plugin_dir,
            master_key_file,
            sandbox,
            log,
            // Changed paths are applied on a reload, but TLS of a listener cannot be switched on or off.
            tls_cert,
            tls_key,
            admin_tls_cert,
            admin_tls_key,
            trusted_proxies,
            admin_hosts,
            provider_ca_file,
            outgoing,
            limits,
            store,
            plugins,
        } = self;
        let serve = profile == Profile::Serve;
        let (caps, new_caps) = (limits.caps(), new.limits.caps());
        let InFlightLimits {
            reads,
            writes,
            modules,
            starts,
            exchanges,
            callbacks,
        } = limits.in_hand;
        let in_hand = new.limits.in_hand;
        let origin = self.public_origin().ok();
        [
            ("public_url", serve && origin != new.public_origin().ok()),
            ("listen", serve && *listen != new.listen),
            ("admin_listen", serve && *admin_listen != new.admin_listen),
            ("data_dir", serve && *data_dir != new.data_dir),
            ("plugin_dir", serve && *plugin_dir != new.plugin_dir),
            (
                "master_key_file",
                serve && *master_key_file != new.master_key_file,
            ),
            ("tls_cert", tls_cert.is_some() != new.tls_cert.is_some()),
            ("tls_key", tls_key.is_some() != new.tls_key.is_some()),
            (
                "admin_tls_cert",
                admin_tls_cert.is_some() != new.admin_tls_cert.is_some(),
            ),
            (
                "admin_tls_key",
                admin_tls_key.is_some() != new.admin_tls_key.is_some(),
            ),
            ("trusted_proxies", *trusted_proxies != new.trusted_proxies),
            ("admin_hosts", *admin_hosts != new.admin_hosts),
            (
                "provider_ca_file",
                *provider_ca_file != new.provider_ca_file,
            ),
            ("outgoing.proxy", outgoing.proxy != new.outgoing.proxy),
            ("outgoing.resolve", outgoing.resolve != new.outgoing.resolve),
            (
                "outgoing.webhooks",
                outgoing.webhooks != new.outgoing.webhooks,
            ),
            ("sandbox", serve && *sandbox != new.sandbox),
            ("limits.connections", caps.overall != new_caps.overall),
            (
                "limits.connections_per_address",
                caps.per_address != new_caps.per_address,
            ),
            (
                "limits.idle_seconds",
                self.limits.idle() != new.limits.idle(),
            ),
            ("limits.in_hand.reads", reads != in_hand.reads),
            ("limits.in_hand.writes", writes != in_hand.writes),
            ("limits.in_hand.modules", modules != in_hand.modules),
            ("limits.in_hand.starts", starts != in_hand.starts),
            ("limits.in_hand.exchanges", exchanges != in_hand.exchanges),
            ("limits.in_hand.callbacks", callbacks != in_hand.callbacks),
            ("store.url", serve && store.url() != new.store.url()),
            ("store.node", serve && store.node() != new.store.node()),
            ("store.cache_mib", store.cache_mib != new.store.cache_mib),
            (
                "plugins.remembered_mib",
                plugins.remembered_mib != new.plugins.remembered_mib,
            ),
            (
                "plugins.check_before_use",
                plugins.check_before_use != new.plugins.check_before_use,
            ),
            ("plugins.keys", plugins.keys != new.plugins.keys),
            ("log.format", serve && log.format != new.log.format),
            ("log.filter", serve && log.filter != new.log.filter),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main(text: &str) -> MainFile {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn settings_of_the_start_are_named_and_live_ones_are_not() {
        let started = main("public_url = \"https://pay.example\"");
        let new = main(
            "public_url = \"https://pay.example/\"\nlisten = \"127.0.0.1:1\"\ndrain_seconds = 5\n\
             trusted_proxies = [\"10.0.0.0/8\"]\ntls_cert = \"a\"\ntls_key = \"b\"\n\
             rate_limit = { per_second = 1, burst = 1 }\npayments.life_seconds = 60\n\
             limits.in_hand.reads = 7\nlimits.connections = 7\nstore.cache_mib = 9\n\
             webhooks.timeout_ms = 500\nretention.delivery_days = 7\n\
             retention.listing_sample_percent = 1\nlog.filter = \"warn\"",
        );
        let expected = [
            "listen",
            "tls_cert",
            "tls_key",
            "trusted_proxies",
            "limits.connections",
            "limits.in_hand.reads",
            "store.cache_mib",
            "log.filter",
        ];
        assert_eq!(started.restart_needed(&new, Profile::Serve), expected);
        let dev = started.restart_needed(&new, Profile::Dev);
        assert!(!dev.contains(&"listen") && !dev.contains(&"log.filter"));
        assert!(dev.contains(&"store.cache_mib"));
        assert!(new.restart_needed(&new, Profile::Serve).is_empty());
    }

    #[test]
    fn other_files_of_a_certificate_need_no_restart() {
        let with = |name: &str| main(&format!("tls_cert = \"{name}.pem\"\ntls_key = \"{name}\""));
        let needed = with("old").restart_needed(&with("new"), Profile::Serve);
        assert!(needed.is_empty(), "{needed:?}");
    }
}
