//! Instructions next to the link to the invoice. The server's page does not lead back to the host's page.

use kassette_plugin::provider::words::translated;

const ENGLISH: &str = "Open the payment page, or scan the code with your phone, and pay there with the \
                       currency of your choice. Keep this page: it goes on by itself once the payment \
                       has arrived.";

const TRANSLATIONS: [(&str, &str); 12] = [
    (
        "cs",
        "Otevřete platební stránku nebo naskenujte kód telefonem a\u{a0}zaplaťte tam měnou, kterou si \
         vyberete. Tuto stránku nezavírejte: jakmile platba dorazí, bude sama pokračovat.",
    ),
    (
        "da",
        "Åbn betalingssiden, eller scan koden med din telefon, og betal der med den valuta, du vælger. \
         Luk ikke denne side: Den fortsætter af sig selv, når betalingen er modtaget.",
    ),
    (
        "de",
        "Öffnen Sie die Bezahlseite oder scannen Sie den Code mit Ihrem Telefon und bezahlen Sie dort in \
         der Währung Ihrer Wahl. Lassen Sie diese Seite offen: Sie geht von selbst weiter, sobald die \
         Zahlung eingetroffen ist.",
    ),
    (
        "es",
        "Abra la página de pago o escanee el código con su teléfono y pague allí con la moneda que elija. \
         No cierre esta página: continúa por sí sola en cuanto llegue el pago.",
    ),
    (
        "fr",
        "Ouvrez la page de paiement ou scannez le code avec votre téléphone, puis payez-y dans la monnaie \
         de votre choix. Gardez cette page ouverte\u{a0}: elle continue d’elle-même dès que le paiement \
         est arrivé.",
    ),
    (
        "hu",
        "Nyissa meg a fizetőoldalt, vagy olvassa be a kódot a telefonjával, és fizessen ott a választott \
         pénznemben. Hagyja nyitva ezt az oldalt: amint a fizetés megérkezik, magától továbblép.",
    ),
    (
        "nb",
        "Åpne betalingssiden, eller skann koden med telefonen, og betal der med valutaen du velger. \
         Ikke lukk denne siden: Den går videre av seg selv når betalingen er mottatt.",
    ),
    (
        "nl",
        "Open de betaalpagina of scan de code met uw telefoon en betaal daar met de munt van uw keuze. \
         Laat deze pagina open: die gaat vanzelf verder zodra de betaling binnen is.",
    ),
    (
        "pl",
        "Otwórz stronę płatności lub zeskanuj kod telefonem i\u{a0}zapłać tam w\u{a0}wybranej walucie. \
         Nie zamykaj tej strony: gdy płatność wpłynie, sama przejdzie dalej.",
    ),
    (
        "pt",
        "Abra a página de pagamento ou leia o código com o telemóvel e pague lá com a moeda que escolher. \
         Mantenha esta página aberta: continua sozinha assim que o pagamento chegar.",
    ),
    (
        "ro",
        "Deschideți pagina de plată sau scanați codul cu telefonul și plătiți acolo cu moneda dorită. \
         Nu închideți această pagină: continuă singură de îndată ce plata a ajuns.",
    ),
    (
        "sv",
        "Öppna betalsidan eller skanna koden med telefonen och betala där i den valuta du väljer. \
         Stäng inte den här sidan: den går vidare av sig själv när betalningen har kommit in.",
    ),
];

/// The instructions in the payer's language (BCP 47), or in English if there is no translation.
pub(crate) fn text(language: Option<&str>) -> &'static str {
    translated(language, ENGLISH, &TRANSLATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payer_reads_instructions_in_the_pages_language() {
        assert!(text(Some("pl")).starts_with("Otwórz"));
        assert!(text(Some("de-AT")).starts_with("Öffnen"));
        for other in [None, Some("en"), Some("ja"), Some("")] {
            assert_eq!(text(other), ENGLISH);
        }
        for (tag, words) in TRANSLATIONS {
            assert!(words.len() <= 1_000, "{tag} would be cut");
        }
    }
}
