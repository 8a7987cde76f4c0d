//! The languages of Mollie's pages.

/// The locales listed in "Create payment". The first locale of a language is the default for payers without a
/// country, or with a country that is not listed for it.
const LOCALES: [&str; 28] = [
    "en_US", "en_GB", "en_BE", "en_NL", "nl_NL", "nl_BE", "de_DE", "de_AT", "de_CH", "de_LU",
    "fr_FR", "fr_BE", "fr_LU", "es_ES", "ca_ES", "pt_PT", "it_IT", "nb_NO", "sv_SE", "fi_FI",
    "da_DK", "is_IS", "hu_HU", "pl_PL", "lv_LV", "lt_LT", "cs_CZ", "sk_SK",
];

/// The locale for a browser's preferred language (BCP 47). `None` if Mollie does not support the language; then
/// Mollie uses the browser's settings.
pub(crate) fn find(language: &str) -> Option<&'static str> {
    let mut parts = language.split('-');
    let language = match parts.next()?.to_ascii_lowercase().as_str() {
        // Browsers' codes for Mollie's Bokmål.
        "no" | "nn" => "nb".to_owned(),
        other => other.to_owned(),
    };
    let same_language = |locale: &&&str| locale.split('_').next() == Some(language.as_str());
    let region = parts.find(|part| part.len() == 2);
    let in_region = LOCALES.iter().filter(same_language).find(|locale| {
        region.is_some_and(|region| {
            locale
                .split('_')
                .nth(1)
                .is_some_and(|known| known.eq_ignore_ascii_case(region))
        })
    });
    in_region
        .or_else(|| LOCALES.iter().find(same_language))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_locale_is_taken() {
        for (purpose, locale) in [
            ("nl-BE", Some("nl_BE")),
            ("nl", Some("nl_NL")),
            ("NL-nl", Some("nl_NL")),
            ("de-Latn-AT", Some("de_AT")),
            ("en-AU", Some("en_US")),
            ("no", Some("nb_NO")),
            ("ja-JP", None),
            ("", None),
        ] {
            assert_eq!(find(purpose), locale, "{purpose}");
        }
    }
}
