//! Texts for payers, in the language of the page (BCP 47).
use super::Instructions;

/// Returns a text in the payer's language, or else in English. `translations` have the primary tag of each
/// language.
pub fn translated<'t>(
    language: Option<&str>,
    english: &'t str,
    translations: &[(&str, &'t str)],
) -> &'t str {
    let primary = language.and_then(|tag| tag.split('-').next());
    let known = translations
        .iter()
        .find(|(tag, _)| primary.is_some_and(|primary| primary.eq_ignore_ascii_case(tag)));
    known.map_or(english, |(_, text)| text)
}

const PAID: [(&str, &str); 12] = [
    ("cs", "Zaplaceno. Potvrzení je na cestě."),
    ("da", "Du har betalt. Bekræftelsen er på vej."),
    ("de", "Sie haben bezahlt. Die Bestätigung ist unterwegs."),
    ("es", "Ha pagado. La confirmación está en camino."),
    ("fr", "Vous avez payé. La confirmation est en route."),
    ("hu", "Kifizette. A visszaigazolás úton van."),
    ("nb", "Du har betalt. Bekreftelsen er på vei."),
    ("nl", "U hebt betaald. De bevestiging is onderweg."),
    ("pl", "Zapłacono. Potwierdzenie jest w drodze."),
    ("pt", "Já pagou. A confirmação está a caminho."),
    ("ro", "Ați plătit. Confirmarea este pe drum."),
    ("sv", "Du har betalat. Bekräftelsen är på väg."),
];

impl Instructions {
    /// Instructions for a payer who has paid before the provider confirms it.
    #[must_use]
    pub fn paid(language: Option<&str>) -> Self {
        let english = "You have paid. The confirmation is on its way.";
        Self {
            text: translated(language, english, &PAID).to_owned(),
            details: Vec::new(),
            qr: None,
            link: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payer_reads_the_pages_language_or_else_english() {
        let text = |language| Instructions::paid(language).text;
        assert!(text(Some("pl")).starts_with("Zapłacono"));
        assert!(text(Some("de-AT")).starts_with("Sie haben"));
        for other in [None, Some("en-GB"), Some("ja"), Some("")] {
            assert!(text(other).starts_with("You have"), "{other:?}");
        }
    }
}
