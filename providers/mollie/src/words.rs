//! Translations of the questions about a payer's address. The host itself translates questions about an e-mail
//! address and a name.
use kassette_plugin::provider::words::translated;

type Words = [(&'static str, &'static str); 12];

/// A label in the payer's language (BCP 47), or in English if it is not translated.
pub(crate) fn label(language: Option<&str>, english: &'static str) -> &'static str {
    let words: &Words = match english {
        "Street and number" => &STREET,
        "Postal code" => &POSTAL_CODE,
        "City" => &CITY,
        "Country" => &COUNTRY,
        _ => return english,
    };
    translated(language, english, words)
}

/// Code and name, in the payer's language, of the euro countries that Klarna serves, sorted by name. `None` if
/// there are no translations.
pub(crate) fn euro(language: Option<&str>) -> Option<&'static [(&'static str, &'static str)]> {
    let primary = language?.split('-').next()?;
    let mut known = EURO.iter();
    let row = known.find(|(tag, _)| tag.eq_ignore_ascii_case(primary))?;
    Some(&row.1)
}

const STREET: Words = [
    ("cs", "Ulice a číslo"),
    ("da", "Vej og husnummer"),
    ("de", "Straße und Hausnummer"),
    ("es", "Calle y número"),
    ("fr", "Numéro et rue"),
    ("hu", "Utca és házszám"),
    ("nb", "Gate og husnummer"),
    ("nl", "Straat en huisnummer"),
    ("pl", "Ulica i numer"),
    ("pt", "Rua e número"),
    ("ro", "Strada și numărul"),
    ("sv", "Gata och husnummer"),
];

const POSTAL_CODE: Words = [
    ("cs", "PSČ"),
    ("da", "Postnummer"),
    ("de", "Postleitzahl"),
    ("es", "Código postal"),
    ("fr", "Code postal"),
    ("hu", "Irányítószám"),
    ("nb", "Postnummer"),
    ("nl", "Postcode"),
    ("pl", "Kod pocztowy"),
    ("pt", "Código postal"),
    ("ro", "Cod poștal"),
    ("sv", "Postnummer"),
];

const CITY: Words = [
    ("cs", "Město"),
    ("da", "By"),
    ("de", "Ort"),
    ("es", "Localidad"),
    ("fr", "Ville"),
    ("hu", "Település"),
    ("nb", "Poststed"),
    ("nl", "Plaats"),
    ("pl", "Miejscowość"),
    ("pt", "Localidade"),
    ("ro", "Localitate"),
    ("sv", "Postort"),
];

const COUNTRY: Words = [
    ("cs", "Země"),
    ("da", "Land"),
    ("de", "Land"),
    ("es", "País"),
    ("fr", "Pays"),
    ("hu", "Ország"),
    ("nb", "Land"),
    ("nl", "Land"),
    ("pl", "Kraj"),
    ("pt", "País"),
    ("ro", "Țara"),
    ("sv", "Land"),
];

type Country = (&'static str, &'static str);

static EURO: [(&str, [Country; 12]); 12] = [
    (
        "cs",
        [
            ("BE", "Belgie"),
            ("FI", "Finsko"),
            ("FR", "Francie"),
            ("IE", "Irsko"),
            ("IT", "Itálie"),
            ("DE", "Německo"),
            ("NL", "Nizozemsko"),
            ("PT", "Portugalsko"),
            ("AT", "Rakousko"),
            ("GR", "Řecko"),
            ("SK", "Slovensko"),
            ("ES", "Španělsko"),
        ],
    ),
    (
        "da",
        [
            ("BE", "Belgien"),
            ("FI", "Finland"),
            ("FR", "Frankrig"),
            ("GR", "Grækenland"),
            ("IE", "Irland"),
            ("IT", "Italien"),
            ("NL", "Nederlandene"),
            ("PT", "Portugal"),
            ("SK", "Slovakiet"),
            ("ES", "Spanien"),
            ("DE", "Tyskland"),
            ("AT", "Østrig"),
        ],
    ),
    (
        "de",
        [
            ("BE", "Belgien"),
            ("DE", "Deutschland"),
            ("FI", "Finnland"),
            ("FR", "Frankreich"),
            ("GR", "Griechenland"),
            ("IE", "Irland"),
            ("IT", "Italien"),
            ("NL", "Niederlande"),
            ("AT", "Österreich"),
            ("PT", "Portugal"),
            ("SK", "Slowakei"),
            ("ES", "Spanien"),
        ],
    ),
    (
        "es",
        [
            ("DE", "Alemania"),
            ("AT", "Austria"),
            ("BE", "Bélgica"),
            ("SK", "Eslovaquia"),
            ("ES", "España"),
            ("FI", "Finlandia"),
            ("FR", "Francia"),
            ("GR", "Grecia"),
            ("IE", "Irlanda"),
            ("IT", "Italia"),
            ("NL", "Países Bajos"),
            ("PT", "Portugal"),
        ],
    ),
    (
        "fr",
        [
            ("DE", "Allemagne"),
            ("AT", "Autriche"),
            ("BE", "Belgique"),
            ("ES", "Espagne"),
            ("FI", "Finlande"),
            ("FR", "France"),
            ("GR", "Grèce"),
            ("IE", "Irlande"),
            ("IT", "Italie"),
            ("NL", "Pays-Bas"),
            ("PT", "Portugal"),
            ("SK", "Slovaquie"),
        ],
    ),
    (
        "hu",
        [
            ("AT", "Ausztria"),
            ("BE", "Belgium"),
            ("FI", "Finnország"),
            ("FR", "Franciaország"),
            ("GR", "Görögország"),
            ("NL", "Hollandia"),
            ("IE", "Írország"),
            ("DE", "Németország"),
            ("IT", "Olaszország"),
            ("PT", "Portugália"),
            ("ES", "Spanyolország"),
            ("SK", "Szlovákia"),
        ],
    ),
    (
        "nb",
        [
            ("BE", "Belgia"),
            ("FI", "Finland"),
            ("FR", "Frankrike"),
            ("GR", "Hellas"),
            ("IE", "Irland"),
            ("IT", "Italia"),
            ("NL", "Nederland"),
            ("PT", "Portugal"),
            ("SK", "Slovakia"),
            ("ES", "Spania"),
            ("DE", "Tyskland"),
            ("AT", "Østerrike"),
        ],
    ),
    (
        "nl",
        [
            ("BE", "België"),
            ("DE", "Duitsland"),
            ("FI", "Finland"),
            ("FR", "Frankrijk"),
            ("GR", "Griekenland"),
            ("IE", "Ierland"),
            ("IT", "Italië"),
            ("NL", "Nederland"),
            ("AT", "Oostenrijk"),
            ("PT", "Portugal"),
            ("SK", "Slowakije"),
            ("ES", "Spanje"),
        ],
    ),
    (
        "pl",
        [
            ("AT", "Austria"),
            ("BE", "Belgia"),
            ("FI", "Finlandia"),
            ("FR", "Francja"),
            ("GR", "Grecja"),
            ("ES", "Hiszpania"),
            ("NL", "Holandia"),
            ("IE", "Irlandia"),
            ("DE", "Niemcy"),
            ("PT", "Portugalia"),
            ("SK", "Słowacja"),
            ("IT", "Włochy"),
        ],
    ),
    (
        "pt",
        [
            ("DE", "Alemanha"),
            ("AT", "Áustria"),
            ("BE", "Bélgica"),
            ("SK", "Eslováquia"),
            ("ES", "Espanha"),
            ("FI", "Finlândia"),
            ("FR", "França"),
            ("GR", "Grécia"),
            ("IE", "Irlanda"),
            ("IT", "Itália"),
            ("NL", "Países Baixos"),
            ("PT", "Portugal"),
        ],
    ),
    (
        "ro",
        [
            ("AT", "Austria"),
            ("BE", "Belgia"),
            ("FI", "Finlanda"),
            ("FR", "Franța"),
            ("DE", "Germania"),
            ("GR", "Grecia"),
            ("IE", "Irlanda"),
            ("IT", "Italia"),
            ("PT", "Portugalia"),
            ("SK", "Slovacia"),
            ("ES", "Spania"),
            ("NL", "Țările de Jos"),
        ],
    ),
    (
        "sv",
        [
            ("BE", "Belgien"),
            ("FI", "Finland"),
            ("FR", "Frankrike"),
            ("GR", "Grekland"),
            ("IE", "Irland"),
            ("IT", "Italien"),
            ("NL", "Nederländerna"),
            ("PT", "Portugal"),
            ("SK", "Slovakien"),
            ("ES", "Spanien"),
            ("DE", "Tyskland"),
            ("AT", "Österrike"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_each_country_of_the_euro() {
        for (language, countries) in EURO {
            let mut codes = countries.map(|(code, _)| code);
            codes.sort_unstable();
            let all = [
                "AT", "BE", "DE", "ES", "FI", "FR", "GR", "IE", "IT", "NL", "PT", "SK",
            ];
            assert_eq!(codes, all, "{language}");
        }
    }
}
