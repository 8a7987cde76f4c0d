//! Instructions on the host's payment page, translated here because the provider sends them only in English.

use kassette_plugin::provider::words::translated;
use kassette_plugin::provider::{Action, Instructions};

/// The provider's name of the address, the only detail of a crypto payment that is shown. The host's page shows
/// the amount itself, in the payer's notation.
const ADDRESS: &str = "Address";

const ENGLISH: &str = "Send the amount to this address. In the sandbox the link opens the simulator’s page \
                       instead of a wallet.";

const TRANSLATIONS: [(&str, &str); 12] = [
    (
        "cs",
        "Odešlete částku na tuto adresu. V\u{a0}sandboxu odkaz místo peněženky otevře stránku simulátoru.",
    ),
    (
        "da",
        "Send beløbet til denne adresse. I sandkassen åbner linket simulatorens side i stedet for en \
         tegnebog.",
    ),
    (
        "de",
        "Senden Sie den Betrag an diese Adresse. In der Sandbox öffnet der Link statt einer Wallet die \
         Seite des Simulators.",
    ),
    (
        "es",
        "Envíe el importe a esta dirección. En el entorno de pruebas, el enlace abre la página del \
         simulador en lugar de un monedero.",
    ),
    (
        "fr",
        "Envoyez le montant à cette adresse. Dans le bac à sable, le lien ouvre la page du simulateur au \
         lieu d’un portefeuille.",
    ),
    (
        "hu",
        "Küldje az összeget erre a címre. A tesztkörnyezetben a hivatkozás pénztárca helyett a szimulátor \
         oldalát nyitja meg.",
    ),
    (
        "nb",
        "Send beløpet til denne adressen. I sandkassen åpner lenken simulatorens side i stedet for en \
         lommebok.",
    ),
    (
        "nl",
        "Stuur het bedrag naar dit adres. In de sandbox opent de link de pagina van de simulator in plaats \
         van een wallet.",
    ),
    (
        "pl",
        "Wyślij kwotę na ten adres. W\u{a0}piaskownicy link otwiera stronę symulatora zamiast portfela.",
    ),
    (
        "pt",
        "Envie o montante para este endereço. No ambiente de testes, a ligação abre a página do simulador \
         em vez de uma carteira.",
    ),
    (
        "ro",
        "Trimiteți suma la această adresă. În mediul de testare, linkul deschide pagina simulatorului în \
         locul unui portofel.",
    ),
    (
        "sv",
        "Skicka beloppet till den här adressen. I testmiljön öppnar länken simulatorns sida i stället för \
         en plånbok.",
    ),
];

const ADDRESSES: [(&str, &str); 12] = [
    ("cs", "Adresa"),
    ("da", "Adresse"),
    ("de", "Adresse"),
    ("es", "Dirección"),
    ("fr", "Adresse"),
    ("hu", "Cím"),
    ("nb", "Adresse"),
    ("nl", "Adres"),
    ("pl", "Adres"),
    ("pt", "Endereço"),
    ("ro", "Adresă"),
    ("sv", "Adress"),
];

const UPI_ENGLISH: &str = "Confirm the payment in your UPI app. In the sandbox the link opens the simulator’s page \
                           instead of an app.";

const UPI_TRANSLATIONS: [(&str, &str); 12] = [
    (
        "cs",
        "Potvrďte platbu ve své aplikaci UPI. V\u{a0}sandboxu odkaz místo aplikace otevře stránku simulátoru.",
    ),
    (
        "da",
        "Bekræft betalingen i din UPI-app. I sandkassen åbner linket simulatorens side i stedet for en \
         app.",
    ),
    (
        "de",
        "Bestätigen Sie die Zahlung in Ihrer UPI-App. In der Sandbox öffnet der Link statt einer App die \
         Seite des Simulators.",
    ),
    (
        "es",
        "Confirme el pago en su aplicación UPI. En el entorno de pruebas, el enlace abre la página del \
         simulador en lugar de una aplicación.",
    ),
    (
        "fr",
        "Confirmez le paiement dans votre application UPI. Dans le bac à sable, le lien ouvre la page du \
         simulateur au lieu d’une application.",
    ),
    (
        "hu",
        "Hagyja jóvá a fizetést az UPI-alkalmazásában. A tesztkörnyezetben a hivatkozás alkalmazás \
         helyett a szimulátor oldalát nyitja meg.",
    ),
    (
        "nb",
        "Bekreft betalingen i UPI-appen din. I sandkassen åpner lenken simulatorens side i stedet for en \
         app.",
    ),
    (
        "nl",
        "Bevestig de betaling in uw UPI-app. In de sandbox opent de link de pagina van de simulator in \
         plaats van een app.",
    ),
    (
        "pl",
        "Potwierdź płatność w\u{a0}swojej aplikacji UPI. W\u{a0}piaskownicy link otwiera stronę symulatora zamiast \
         aplikacji.",
    ),
    (
        "pt",
        "Confirme o pagamento na sua aplicação UPI. No ambiente de testes, a ligação abre a página do \
         simulador em vez de uma aplicação.",
    ),
    (
        "ro",
        "Confirmați plata în aplicația dumneavoastră UPI. În mediul de testare, linkul deschide pagina \
         simulatorului în locul unei aplicații.",
    ),
    (
        "sv",
        "Bekräfta betalningen i din UPI-app. I testmiljön öppnar länken simulatorns sida i stället för en \
         app.",
    ),
];

/// The provider's name of the only detail with translations; `UPI ID` is the same in all languages.
const REFERENCE: &str = "Reference";

const REFERENCES: [(&str, &str); 12] = [
    ("cs", "Reference"),
    ("da", "Reference"),
    ("de", "Referenz"),
    ("es", "Referencia"),
    ("fr", "Référence"),
    ("hu", "Hivatkozás"),
    ("nb", "Referanse"),
    ("nl", "Referentie"),
    ("pl", "Numer referencyjny"),
    ("pt", "Referência"),
    ("ro", "Referință"),
    ("sv", "Referens"),
];

/// Translates instructions into the payer's language (BCP 47), or English if there is no translation. Other
/// actions, and instructions of other methods, are returned unchanged.
pub(crate) fn told(action: Action, method: &str, language: Option<&str>) -> Action {
    match action {
        Action::Show(shown) if method == "crypto" => {
            let details = shown.details.into_iter();
            let label = translated(language, ADDRESS, &ADDRESSES);
            Action::Show(Instructions {
                text: translated(language, ENGLISH, &TRANSLATIONS).into(),
                details: details
                    .filter(|(name, _)| name == ADDRESS)
                    .map(|(_, address)| (label.to_owned(), address))
                    .collect(),
                ..shown
            })
        }
        Action::Show(mut shown) if method == "upi_imps" => {
            shown.text = translated(language, UPI_ENGLISH, &UPI_TRANSLATIONS).into();
            for (name, _) in &mut shown.details {
                if name == REFERENCE {
                    *name = translated(language, REFERENCE, &REFERENCES).into();
                }
            }
            Action::Show(shown)
        }
        action => action,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &str, language: Option<&str>) -> Instructions {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let action = Action::Show(Instructions {
            text: "the vendor's".into(),
            details: vec![
                pair("Address", "sbx1q"),
                pair("Amount", "49.90 EUR"),
                pair("Reference", "r1"),
            ],
            qr: Some("qr".into()),
            link: Some("link".into()),
        });
        match told(action, method, language) {
            Action::Show(shown) => shown,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_payer_of_a_crypto_payment_reads_the_page_s_language() {
        for (language, begins, label) in [
            (Some("pl"), "Wyślij", "Adres"),
            (Some("de-AT"), "Senden", "Adresse"),
            (Some("ja"), "Send the", "Address"),
            (None, "Send the", "Address"),
        ] {
            let shown = shown("crypto", language);
            assert!(shown.text.starts_with(begins), "{}", shown.text);
            assert_eq!(shown.details, [(label.to_owned(), "sbx1q".to_owned())]);
            assert_eq!(
                (shown.qr.as_deref(), shown.link.as_deref()),
                (Some("qr"), Some("link"))
            );
        }
    }

    #[test]
    fn the_payer_of_a_upi_payment_reads_the_page_s_language() {
        for (language, begins, label) in [
            (Some("pl"), "Potwierdź", "Numer referencyjny"),
            (Some("de-AT"), "Bestätigen", "Referenz"),
            (None, "Confirm the", "Reference"),
        ] {
            let shown = shown("upi_imps", language);
            assert!(shown.text.starts_with(begins), "{}", shown.text);
            let labels: Vec<_> = shown
                .details
                .iter()
                .map(|(label, _)| label.as_str())
                .collect();
            assert_eq!(labels, ["Address", "Amount", label]);
        }
        assert_eq!(shown("other", Some("pl")).text, "the vendor's");
    }

    #[test]
    fn each_text_is_in_the_same_languages() {
        let languages = |texts: [(&'static str, &str); 12]| texts.map(|(tag, _)| tag);
        for texts in [ADDRESSES, UPI_TRANSLATIONS, REFERENCES] {
            assert_eq!(languages(texts), languages(TRANSLATIONS));
        }
    }
}
