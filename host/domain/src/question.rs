//! Rules for modules' questions to payers: our page never asks for card numbers, card codes and passwords of
//! banks.

use crate::provider::{Question, QuestionKind};
use crate::text::is_blank;

/// Number of digits of a card number.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 14..=19;

/// Terms for card numbers in the languages of our pages, as returned by [`fold`].
const CARD_NUMBER: &[&str] = &[
    "card number",
    "card numbers",
    "card no",
    "card num",
    "cc number",
    "cc num",
    "cc no",
    "number on card",
    "number on the card",
    "number on your card",
    "number of card",
    "number of the card",
    "number of your card",
    "card details",
    "primary account number",
    "kartennummer",
    "kreditkartennummer",
    "debitkartennummer",
    "bankkartennummer",
    "girokartennummer",
    "kreditkarten nummer",
    "kartennr",
    "nummer der karte",
    "nummer ihrer karte",
    "nummer der kreditkarte",
    "nummer ihrer kreditkarte",
    "numero de carte",
    "numero de la carte",
    "numero de votre carte",
    "numero de ta carte",
    "numero carte",
    "no de carte",
    "n de carte",
    "numero de tarjeta",
    "numero de la tarjeta",
    "numero de tu tarjeta",
    "numero de su tarjeta",
    "numero tarjeta",
    "no de tarjeta",
    "n de tarjeta",
    "numero do cartao",
    "numero de cartao",
    "numero do seu cartao",
    "numero cartao",
    "n do cartao",
    "no do cartao",
    "kaartnummer",
    "creditcardnummer",
    "betaalkaartnummer",
    "bankkaartnummer",
    "pasnummer",
    "bankpasnummer",
    "betaalpasnummer",
    "credit card nummer",
    "nummer van je kaart",
    "nummer van uw kaart",
    "nummer van de kaart",
    "kortnummer",
    "kreditkortnummer",
    "kredittkortnummer",
    "betalingskortnummer",
    "bankkortnummer",
    "nummer pa kortet",
    "nummeret pa kortet",
    "nummeret pa kortet ditt",
    "nummeret pa dit kort",
    "kreditkortsnummer",
    "betalkortsnummer",
    "bankkortsnummer",
    "kortets nummer",
    "numer karty",
    "numer twojej karty",
    "nr karty",
    "cislo karty",
    "cislo platebni karty",
    "cislo kreditni karty",
    "cislo bankovni karty",
    "cislo vasi karty",
    "kartyaszam",
    "bankkartyaszam",
    "hitelkartyaszam",
    "kartya szama",
    "kartya szam",
    "bankkartya szama",
    "hitelkartya szama",
    "bankkartyaja szama",
    "numar card",
    "numar de card",
    "numarul card",
    "numarul de card",
    "numarul cardului",
    "nr card",
    "nr cardului",
];

/// Terms for a card's code.
const CARD_CODE: &[&str] = &[
    "cvc",
    "cvv",
    "cvn",
    "cvc2",
    "cvv2",
    "card code",
    "card pin",
    "card security",
    "card verification",
    "security code",
    "kartenprufnummer",
    "kartenpruefnummer",
    "prufnummer",
    "pruefnummer",
    "kartenprufziffer",
    "kartenpruefziffer",
    "prufziffer",
    "pruefziffer",
    "kartencode",
    "sicherheitscode",
    "kartensicherheitscode",
    "kartenpin",
    "karten pin",
    "code de securite",
    "code securite",
    "cryptogramme",
    "code carte",
    "code de carte",
    "code de la carte",
    "code de votre carte",
    "codigo de seguridad",
    "codigo seguridad",
    "codigo de la tarjeta",
    "codigo de tarjeta",
    "codigo de seguranca",
    "codigo seguranca",
    "codigo do cartao",
    "kaartcode",
    "beveiligingscode",
    "veiligheidscode",
    "kaartverificatiecode",
    "sikkerhedskode",
    "kontrolcifre",
    "kortkode",
    "sikkerhetskode",
    "kontrollsiffer",
    "sakerhetskod",
    "kortkod",
    "kod karty",
    "kod zabezpieczajacy",
    "kod bezpieczenstwa",
    "kod karty",
    "bezpecnostni kod",
    "kartyakod",
    "biztonsagi kod",
    "cod de securitate",
    "codul de securitate",
    "cod securitate",
    "codul cardului",
];

/// Terms for a bank's password.
const PASSWORD: &[&str] = &[
    "password",
    "passwords",
    "passcode",
    "passphrase",
    "upi pin",
    "mpin",
    "m pin",
    "tpin",
    "atm pin",
    "bank pin",
    "banking pin",
    "debit pin",
    "sms tan",
    "push tan",
    "mobile tan",
    "photo tan",
    "chip tan",
    "tan nummer",
    "passwort",
    "bankpasswort",
    "kennwort",
    "geheimzahl",
    "mot de passe",
    "code secret",
    "code confidentiel",
    "code pin",
    "contrasena",
    "clave bancaria",
    "clave secreta",
    "clave de acceso",
    "codigo pin",
    "codigo secreto",
    "senha",
    "palavra passe",
    "wachtwoord",
    "bankwachtwoord",
    "adgangskode",
    "kodeord",
    "pinkode",
    "pin kode",
    "passord",
    "losenord",
    "pinkod",
    "pin kod",
    "haslo",
    "kod pin",
    "numer pin",
    "heslo",
    "jelszo",
    "jelszava",
    "parola",
    "cod pin",
    "codul pin",
];

/// Allowed terms that contain a forbidden one.
const HONEST: &[&str] = &[
    "id card number",
    "identity card number",
    "numero de carte d identite",
    "numero de la carte d identite",
    "numero de tarjeta de identidad",
    "numero do cartao de cidadao",
    "numero de cartao de cidadao",
];

/// India's name for a postal code, unless the label also names a card or a bank.
const PIN_CODE: &str = "pin code";
const OF_A_BANK: &[&str] = &[
    "bank",
    "banking",
    "netbanking",
    "card",
    "atm",
    "upi",
    "account",
    "konto",
    "karte",
    "bankkarte",
    "kreditkarte",
    "carte",
    "pass",
    "bankpas",
    "kaart",
    "kort",
    "kortet",
];

/// Whether a question asks for data that a payer may enter only on a page of a card network or bank. Terms match
/// entire words of its label or name, regardless of separators.
pub fn is_forbidden(question: &Question) -> bool {
    let label = fold(&question.label);
    has_term(&label) || asks_for_pin(&label) || has_term(&fold(&question.name))
}

fn has_term(mut words: &[String]) -> bool {
    while !words.is_empty() {
        if let Some(length) = HONEST.iter().find_map(|term| length_at(words, term)) {
            words = &words[length..];
        } else if [CARD_NUMBER, CARD_CODE, PASSWORD]
            .into_iter()
            .flatten()
            .any(|term| length_at(words, term).is_some())
        {
            return true;
        } else {
            words = &words[1..];
        }
    }
    false
}

/// Whether a label asks for a PIN. The question's name is not checked, because India's postal code often has that
/// name.
fn asks_for_pin(label: &[String]) -> bool {
    let of_a_bank = label.iter().any(|word| OF_A_BANK.contains(&word.as_str()));
    (0..label.len()).any(|at| {
        let rest = &label[at..];
        let is_postal = length_at(rest, PIN_CODE).is_some() && !of_a_bank;
        length_at(rest, "pin").is_some() && !is_postal
    })
}

/// Number of leading words that form a term. `None` if they do not start with it. The words may be divided in
/// other places than the term's: `card-number`, `cardnumber`.
fn length_at(words: &[String], term: &str) -> Option<usize> {
    let mut left = term.bytes().filter(|byte| *byte != b' ');
    let mut missing = left.clone().count();
    for (index, word) in words.iter().enumerate() {
        if word.len() > missing || !word.bytes().eq(left.by_ref().take(word.len())) {
            return None;
        }
        missing -= word.len();
        if missing == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// The words of a text in lower case, without accents and invisible characters.
fn fold(text: &str) -> Vec<String> {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match plain(c) {
            Some(plain) => folded.push_str(plain),
            None if is_combining(c) || (is_blank(c) && !c.is_whitespace()) => {}
            None => folded.push(wide_to_ascii(c)),
        }
    }
    let words = folded.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Whether a character is a combining accent.
const fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// ASCII for its full-width form; other characters are unchanged.
fn wide_to_ascii(c: char) -> char {
    let ascii = matches!(c, '\u{ff01}'..='\u{ff5e}').then(|| u32::from(c) - 0xfee0);
    ascii.and_then(char::from_u32).unwrap_or(c)
}

/// A small letter without its accent, and the Latin letter for a similar Cyrillic or Greek one. `None` for other
/// characters.
const fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ă' | 'ą' | 'а' | 'α' => "a",
        'ç' | 'č' | 'ć' | 'с' => "c",
        'ď' => "d",
        'è' | 'é' | 'ê' | 'ë' | 'ě' | 'ę' | 'е' => "e",
        'ì' | 'í' | 'î' | 'ï' | 'ı' | 'і' | 'ι' => "i",
        'ј' => "j",
        'к' | 'κ' => "k",
        'ł' | 'ĺ' | 'ľ' => "l",
        'ñ' | 'ň' | 'ń' => "n",
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'ő' | 'º' | '°' | 'о' | 'ο' => "o",
        'р' | 'ρ' => "p",
        'ř' => "r",
        'š' | 'ś' | 'ş' | 'ș' | 'ѕ' => "s",
        'ť' | 'ţ' | 'ț' | 'т' => "t",
        'ù' | 'ú' | 'û' | 'ü' | 'ű' | 'ů' => "u",
        'ν' => "v",
        'х' => "x",
        'ý' | 'у' => "y",
        'ž' | 'ź' | 'ż' => "z",
        'æ' => "ae",
        'œ' => "oe",
        'ß' => "ss",
        _ => return None,
    })
}

/// Whether an answer looks like a card number: 14 to 19 digits with a card network's prefix and a valid check
/// digit. Always false for phone numbers and choices.
pub fn is_card_like(kind: QuestionKind, answer: &str) -> bool {
    if matches!(kind, QuestionKind::Phone | QuestionKind::Choice) {
        return false;
    }
    // Letters end a run of digits; other characters between digits do not.
    let mut digits: Vec<u8> = Vec::new();
    for c in answer.chars().chain(['x']).map(wide_to_ascii) {
        if let Some(digit) = c.to_digit(10).and_then(|digit| u8::try_from(digit).ok()) {
            digits.push(digit);
        } else if c.is_alphanumeric() {
            if is_card_number(&digits) {
                return true;
            }
            digits.clear();
        }
    }
    false
}

fn is_card_number(digits: &[u8]) -> bool {
    CARD_DIGITS.contains(&digits.len()) && has_network(digits) && is_luhn(digits)
}

/// Whether a number has the prefix of a card network.
fn has_network(digits: &[u8]) -> bool {
    let prefix = digits.iter().take(4);
    let prefix = prefix.fold(0_u16, |prefix, digit| prefix * 10 + u16::from(*digit));
    matches!(
        prefix,
        // Mir; Mastercard.
        2200..=2204 | 2221..=2720
        // Diners Club, American Express, JCB.
        | 3000..=3059 | 3095 | 3400..=3999
        // Visa; Mastercard and Maestro; Discover, RuPay, UnionPay and Maestro.
        | 4000..=5899 | 6000..=6999
        // RuPay and UnionPay; Troy.
        | 8100..=8299 | 9792
    )
}

/// Verifies the check digit of ISO/IEC 7812.
fn is_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (u32::from(*digit), index % 2) {
            (digit, 0) => digit,
            (digit, _) if digit > 4 => 2 * digit - 9,
            (digit, _) => 2 * digit,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, label: &str) -> bool {
        is_forbidden(&Question {
            name: name.into(),
            label: label.into(),
            kind: QuestionKind::Text,
            required: true,
            choices: Vec::new(),
        })
    }

    #[test]
    fn questions_for_cards_and_passwords_are_refused_in_every_language() {
        for label in [
            "Card number",
            "Your credit-card number",
            "CARD  NO.",
            "CardNumber",
            "CVV",
            "C.V.C.",
            "3-digit security code",
            "Online banking password",
            "PIN",
            "Your UPI PIN",
            "Card PIN code",
            "PIN code of your card",
            "PIN code for your bank",
            "Kartennummer",
            "Kreditkarten-Nummer",
            "Prüfziffer",
            "Passwort Ihrer Bank",
            "Karten-PIN",
            "Numéro de carte",
            "N° de carte",
            "Nume\u{301}ro de votre carte bancaire",
            "Code de sécurité",
            "Mot de passe",
            "Número de tarjeta",
            "Código de seguridad",
            "Contraseña",
            "Número do cartão",
            "Código de segurança",
            "Senha",
            "Kaartnummer",
            "Beveiligingscode",
            "Wachtwoord",
            "Kortnummer",
            "Sikkerhedskode",
            "Adgangskode",
            "Sikkerhetskode",
            "Passord",
            "Säkerhetskod",
            "Lösenord",
            "Numer karty",
            "Kod bezpieczeństwa",
            "Hasło do banku",
            "Číslo karty",
            "Bezpečnostní kód",
            "Heslo",
            "Kártyaszám",
            "Biztonsági kód",
            "Jelszó",
            "Numărul cardului",
            "Cod de securitate",
            "Parolă",
            "C\u{430}rd numb\u{435}r",
            "Ｃａｒｄ ｎｕｍｂｅｒ",
            "Card\u{ad} num\u{200b}ber",
        ] {
            assert!(refused("x", label), "{label}");
        }
        for name in [
            "card-number",
            "cardnumber",
            "cvc",
            "bank-password",
            "card-pin",
            "heslo",
        ] {
            assert!(refused(name, "One more thing"), "{name}");
        }
    }

    #[test]
    fn honest_questions_are_taken() {
        for (name, label) in [
            ("pin-code", "PIN code"),
            ("pin", "PIN code"),
            ("pincode", "Pincode"),
            ("holder", "Account holder"),
            ("holder", "Name on the card"),
            ("holder", "Kontoinhaber"),
            ("iban", "IBAN"),
            ("account", "Account number"),
            ("street", "Street and number"),
            ("spelling", "Spinning cardigan numbers"),
            ("id", "Identity card number"),
            ("id", "Numéro de carte d’identité"),
            ("nif", "Número do Cartão de Cidadão"),
            ("tax", "PAN (tax number)"),
            ("vpa", "UPI ID"),
            ("blik", "Kod BLIK"),
            ("postcode", "Postcode"),
            ("company", "Numéro de TVA"),
        ] {
            assert!(!refused(name, label), "{label}");
        }
    }

    #[test]
    fn every_question_of_our_modules_is_taken() {
        for source in [
            include_str!("../../../providers/mollie/src/words.rs"),
            include_str!("../../../providers/mollie/src/klarna.rs"),
            include_str!("../../../providers/paysafe/src/start.rs"),
            include_str!("../../../providers/sandbox/src/start.rs"),
        ] {
            // Tables of terms contain no other texts; elsewhere a question's texts follow their field names.
            let is_text = |line: &&str| {
                let line = line.trim_start();
                line.starts_with(['(', '"'])
                    || line.starts_with("label:")
                    || line.starts_with("name:")
            };
            for line in source.lines().filter(is_text) {
                for text in line.split('"').skip(1).step_by(2) {
                    assert!(!refused(text, text), "{text}");
                }
            }
        }
    }

    #[test]
    fn answers_like_card_numbers_are_known_however_they_are_written() {
        let text = |answer| is_card_like(QuestionKind::Text, answer);
        for card in [
            "4242424242424242",
            "4242 4242 4242 4242",
            "4242-4242-4242-4242",
            "my card is 5555.5555.5555.4444 thanks",
            "378282246310005",
            "30569309025904",
            "6011111111111117",
            "3566002020360505",
            "2223003122003222",
            "6200000000000000000",
            "４２４２４２４２４２４２４２４２",
        ] {
            assert!(text(card), "{card}");
            assert!(!is_card_like(QuestionKind::Phone, card), "{card}");
        }
        for other in [
            "",
            "4242424242424241",
            "4242 4242 4242",
            "Street 42, 4242 Town",
            "NL91ABNA0417164300",
            "79927398713",
            "1111111111111117",
            "42424242424242424242",
        ] {
            assert!(!text(other), "{other}");
        }
    }
}
