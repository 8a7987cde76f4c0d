//! Slots of guest packages.

/// The slot of a guest package: `method.credit_card` for `kassette-method-credit-card`, `provider.paypal` for
/// `kassette-provider-paypal`. `None` for any other name.
#[must_use]
pub fn slot_of(package: &str) -> Option<String> {
    let (kind, name) = package.strip_prefix("kassette-")?.split_once('-')?;
    let known = matches!(kind, "method" | "provider");
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (known && plain).then(|| format!("{kind}.{}", name.replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    #[test]
    fn packages_name_their_slots() {
        let slot = |package| slot_of(package).unwrap_or_default();
        assert_eq!(slot("kassette-method-ideal"), "method.ideal");
        assert_eq!(slot("kassette-method-credit-card"), "method.credit_card");
        assert_eq!(slot("kassette-provider-sandbox"), "provider.sandbox");
    }

    #[test]
    fn other_packages_are_no_guests() {
        for package in [
            "kassette-plugin",
            "kassette-build",
            "kassette-method-",
            "kassette-method-../x",
            "kassette-method-Ideal",
            "method-ideal",
            "kassette",
        ] {
            assert_eq!(slot_of(package), None, "{package}");
        }
    }
}
