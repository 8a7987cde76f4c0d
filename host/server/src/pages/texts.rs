//! Texts for payers in their language: message catalogues and language negotiation.
//!
//! Each message is a method of [`Texts`]. A template with an unknown message or a missing variable therefore
//! does not compile, and an unused message causes a warning. A test checks that every catalogue is complete.
//!
//! The language is the payer's choice from the page's menu, else the payment's, else the browser's best match.
//! The choice is kept in a cookie of our own that holds a language's tag and nothing else.

use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use fluent_langneg::{LanguageIdentifier, NegotiationStrategy, negotiate_languages};
use http::HeaderMap;
use http::header::{ACCEPT_LANGUAGE, COOKIE};
use icu_locale_core::subtags::Region;
use kassette_domain::extras::Locale;
use kassette_domain::money::Money;

use super::amount::{self, Amount};

macro_rules! languages {
    ($($tag:literal $name:literal,)+) => {
        /// Tags of the languages and their native names, in the menu's order. The first is the default, and its
        /// catalogue is complete by definition.
        pub(crate) const NAMES: &[(&str, &str)] = &[$(($tag, $name)),+];

        /// The catalogues' sources.
        const SOURCES: [&str; NAMES.len()] =
            [$(include_str!(concat!("../../locales/", $tag, ".ftl"))),+];
    };
}

languages! {
    "en" "English",
    "cs" "Čeština",
    "da" "Dansk",
    "de" "Deutsch",
    "es" "Español",
    "fr" "Français",
    "hu" "Magyar",
    "nl" "Nederlands",
    "nb" "Norsk",
    "pl" "Polski",
    "pt" "Português",
    "ro" "Română",
    "sv" "Svenska",
}

/// Name of the cookie that stores the chosen language.
pub(crate) const CHOSEN: &str = "kassette-language";
/// Query parameter that chooses a language: `language=pl`.
pub(crate) const CHOOSE: &str = "language";

/// Maximum number of ranges read from an `Accept-Language` header; browsers send a handful.
const MOST_RANGES: usize = 16;

struct Catalogue {
    bundle: FluentBundle<FluentResource>,
}

static CATALOGUES: LazyLock<Vec<Catalogue>> =
    LazyLock::new(|| SOURCES.iter().map(|source| read(source)).collect());

/// Tags of the catalogues, in order.
static TAGS: LazyLock<Vec<LanguageIdentifier>> = LazyLock::new(|| {
    let tags = NAMES.iter();
    tags.map(|(tag, _)| tag.parse().unwrap_or_default())
        .collect()
});

/// Parses a catalogue. A test parses all of them strictly; if one were damaged, its valid messages would be
/// used, and English for the rest.
fn read(source: &str) -> Catalogue {
    let resource =
        FluentResource::try_new(source.to_owned()).unwrap_or_else(|(partial, _)| partial);
    // Plural rules and number formats are not used, so the bundle needs no locale.
    let mut bundle = FluentBundle::new_concurrent(vec![]);
    bundle.add_resource_overriding(resource);
    Catalogue { bundle }
}

/// The texts of one language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    index: usize,
    /// Region of the language, if the browser or the payment names one.
    region: Option<Region>,
    /// Whether the payer chose it from the menu.
    is_chosen: bool,
}

impl Texts {
    /// Texts in the language that the payer chose, otherwise in the best available match for the browser's
    /// languages.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Self {
        let wished = headers
            .get(ACCEPT_LANGUAGE)
            .and_then(|value| value.to_str().ok())
            .map(ranges)
            .unwrap_or_default();
        let chosen = chosen(headers);
        let index = chosen.or_else(|| best(&wished)).unwrap_or(0);
        Self {
            index,
            region: region(index, &wished),
            is_chosen: chosen.is_some(),
        }
    }

    /// Texts in a payment's language. Unchanged if it has no available one, or if the payer chose one.
    pub(crate) fn preferring(self, locale: Option<&Locale>) -> Self {
        let wished = locale.map(|locale| ranges(locale.as_str()));
        let wished = wished.unwrap_or_default();
        match best(&wished) {
            Some(index) if !self.is_chosen => Self {
                index,
                region: region(index, &wished).or(self.region.filter(|_| index == self.index)),
                is_chosen: false,
            },
            _ => self,
        }
    }

    /// Tag in a query of the menu. `None` if the query does not choose an available language.
    pub(crate) fn asked(query: Option<&str>) -> Option<&'static str> {
        let tag = query?.strip_prefix(CHOOSE)?.strip_prefix('=')?;
        let (tag, _) = NAMES.iter().find(|(known, _)| *known == tag)?;
        Some(tag)
    }

    /// The language's tag, BCP 47.
    pub(crate) fn tag(self) -> &'static str {
        NAMES.get(self.index).map_or("en", |(tag, _)| tag)
    }

    /// The language's native name.
    pub(crate) fn name(self) -> &'static str {
        NAMES.get(self.index).map_or("English", |(_, name)| name)
    }

    /// An amount in the payer's notation.
    pub(crate) fn money(self, money: Money) -> Amount {
        amount::written(money, self.tag(), self.region)
    }

    fn say(self, key: &str, variables: &[(&'static str, &str)]) -> String {
        let args = variables.iter().copied().collect::<FluentArgs<'_>>();
        [self.index, 0]
            .into_iter()
            .filter_map(|index| CATALOGUES.get(index))
            .find_map(|catalogue| catalogue.format(key, &args))
            .unwrap_or_else(|| key.to_owned())
    }
}

impl Catalogue {
    fn format(&self, key: &str, args: &FluentArgs<'_>) -> Option<String> {
        let message = self.bundle.get_message(key)?;
        let mut errors = vec![];
        let text = self
            .bundle
            .format_pattern(message.value()?, Some(args), &mut errors);
        errors.is_empty().then(|| text.into_owned())
    }
}

/// Index in [`NAMES`] of the best match for language ranges.
fn best(wished: &[LanguageIdentifier]) -> Option<usize> {
    let found = negotiate_languages(wished, TAGS.as_slice(), None, NegotiationStrategy::Lookup);
    let best = found.first()?;
    TAGS.iter().position(|tag| tag == *best)
}

/// Region in the first range with the language.
fn region(index: usize, wished: &[LanguageIdentifier]) -> Option<Region> {
    let own = TAGS.get(index).map(|tag| tag.language);
    let range = wished.iter().find(|range| Some(range.language) == own)?;
    range.region?.as_str().parse().ok()
}

/// Index in [`NAMES`] of the language in the cookie.
fn chosen(headers: &HeaderMap) -> Option<usize> {
    let cookies = headers.get_all(COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let tag = pair.trim().strip_prefix(CHOSEN)?.strip_prefix('=')?;
        NAMES.iter().position(|(known, _)| *known == tag)
    })
}

/// Language ranges of an `Accept-Language` header, best first (RFC 9110, 12.5.4). Equal weights keep their
/// order; a weight of zero excludes a range. `no` and `nn` are treated as `nb`, the only Norwegian catalogue.
fn ranges(header: &str) -> Vec<LanguageIdentifier> {
    let mut weighted: Vec<(u16, LanguageIdentifier)> = header
        .split(',')
        .take(MOST_RANGES)
        .filter_map(|range| {
            let mut parts = range.split(';');
            let mut tag: LanguageIdentifier = parts.next()?.trim().parse().ok()?;
            if matches!(tag.language.as_str(), "no" | "nn") {
                tag.language = "nb".parse().ok()?;
            }
            let weight = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(Some(1000), thousandths)?;
            (weight > 0).then_some((weight, tag))
        })
        .collect();
    weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    weighted.into_iter().map(|(_, tag)| tag).collect()
}

/// A weight in thousandths: `0.8` is 800. `None` if it is invalid.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = decimals.bytes().all(|b| b.is_ascii_digit()) && decimals.len() <= 3;
    let fraction: u16 = format!("{decimals:0<3}").parse().ok().filter(|_| digits)?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1000),
        _ => None,
    }
}

macro_rules! texts {
    ($($name:ident $(($($variable:ident),+))? = $key:literal;)+) => {
        impl Texts {
            $(
                #[doc = concat!("`", $key, "`")]
                pub(crate) fn $name(self $($(, $variable: &str)+)?) -> String {
                    self.say($key, &[$($((stringify!($variable), $variable)),+)?])
                }
            )+
        }

        /// Every message with its variables.
        #[cfg(test)]
        const MESSAGES: &[(&str, &[&str])] =
            &[$(($key, &[$($(stringify!($variable)),+)?])),+];
    };
}

texts! {
    test_banner = "test-banner";
    test_banner_text = "test-banner-text";
    footer_reassurance = "footer-reassurance";
    footer_brand = "footer-brand";
    opens_new_tab = "opens-new-tab";
    language_menu = "language-menu";
    summary_pay(merchant) = "summary-pay";
    summary_paid(merchant) = "summary-paid";
    summary_about(merchant) = "summary-about";
    summary_order = "summary-order";
    support = "support";
    choose_title(amount, merchant) = "choose-title";
    choose_heading = "choose-heading";
    choose_heading_again = "choose-heading-again";
    choose_hint = "choose-hint";
    choose_with(method) = "choose-with";
    choose_declined = "choose-declined";
    choose_down(provider) = "choose-down";
    choose_via(provider) = "choose-via";
    choose_more(provider) = "choose-more";
    changed_title = "changed-title";
    changed_text(method, provider) = "changed-text";
    changed_continue(provider) = "changed-continue";
    changed_other = "changed-other";
    going_title(provider) = "going-title";
    going_text(amount) = "going-text";
    go_text_stuck = "go-text-stuck";
    go_link(provider) = "go-link";
    open_title = "open-title";
    open_text(method, provider) = "open-text";
    post_title(provider) = "post-title";
    post_text(provider) = "post-text";
    another_way = "another-way";
    another_way_hint(provider) = "another-way-hint";
    lapsed_title = "lapsed-title";
    lapsed_text(provider) = "lapsed-text";
    questions_title(provider) = "questions-title";
    questions_text(provider) = "questions-text";
    questions_submit = "questions-submit";
    question_optional = "question-optional";
    question_choose = "question-choose";
    question_email = "question-email";
    question_phone = "question-phone";
    question_given_name = "question-given-name";
    question_family_name = "question-family-name";
    error_summary = "error-summary";
    error_required = "error-required";
    error_email = "error-email";
    error_phone = "error-phone";
    error_length(most) = "error-length";
    error_choice = "error-choice";
    error_characters = "error-characters";
    error_card = "error-card";
    show_title(method) = "show-title";
    show_details = "show-details";
    show_details_hint = "show-details-hint";
    copy = "copy";
    show_qr = "show-qr";
    show_link = "show-link";
    show_page = "show-page";
    show_left(time) = "show-left";
    show_paid = "show-paid";
    completed_title = "completed-title";
    completed_text(amount, merchant) = "completed-text";
    completed_test = "completed-test";
    receipt_date = "receipt-date";
    receipt_method = "receipt-method";
    receipt_by(method, provider) = "receipt-by";
    receipt_reference = "receipt-reference";
    receipt_payee = "receipt-payee";
    receipt_paid = "receipt-paid";
    receipt_refunded(day) = "receipt-refunded";
    receipt_rest = "receipt-rest";
    receipt_keep = "receipt-keep";
    completed_part_returned(amount) = "completed-part-returned";
    completed_disputed = "completed-disputed";
    second_received(merchant) = "second-received";
    second_part_given_back(merchant) = "second-part-given-back";
    second_given_back = "second-given-back";
    accepted_text(merchant) = "accepted-text";
    returned_title = "returned-title";
    returned_text(amount, merchant) = "returned-text";
    money_received(merchant) = "money-received";
    money_part_given_back(merchant) = "money-part-given-back";
    money_given_back(merchant) = "money-given-back";
    money_unclear(merchant) = "money-unclear";
    processing_title = "processing-title";
    processing_text = "processing-text";
    verification_title = "verification-title";
    verification_text(merchant) = "verification-text";
    verification_awaited(provider, merchant) = "verification-awaited";
    review_title = "review-title";
    review_text(merchant) = "review-text";
    review_part_given_back = "review-part-given-back";
    review_given_back = "review-given-back";
    failed_title = "failed-title";
    failed_text(merchant) = "failed-text";
    cancelled_title = "cancelled-title";
    cancelled_text(merchant) = "cancelled-text";
    expired_title = "expired-title";
    expired_text(merchant) = "expired-text";
    expired_late(merchant) = "expired-late";
    checking_title = "checking-title";
    checking_text(provider) = "checking-text";
    checking_retry = "checking-retry";
    waiting_title(provider) = "waiting-title";
    waiting_text(provider) = "waiting-text";
    waiting_declined(provider) = "waiting-declined";
    declined_title = "declined-title";
    ended_title = "ended-title";
    ended_text(provider) = "ended-text";
    try_again = "try-again";
    pay_in_shop(merchant) = "pay-in-shop";
    choose_again = "choose-again";
    see_current = "see-current";
    direct_title = "direct-title";
    direct_text(merchant) = "direct-text";
    unavailable_title = "unavailable-title";
    unavailable_text(merchant) = "unavailable-text";
    back_to_merchant = "back-to-merchant";
    back_soon(merchant) = "back-soon";
    stay = "stay";
    close_page = "close-page";
    updates_itself = "updates-itself";
    updates_pause = "updates-pause";
    updates_paused = "updates-paused";
    check_again = "check-again";
    notice_still_open(provider) = "notice-still-open";
    notice_not_available = "notice-not-available";
    choose_another = "choose-another";
    not_taken = "not-taken";
    one_try_left = "one-try-left";
    declined_funds = "declined-funds";
    advice_funds = "advice-funds";
    declined_expired = "declined-expired";
    advice_expired = "advice-expired";
    declined_authentication = "declined-authentication";
    advice_authentication = "advice-authentication";
    declined_limit = "declined-limit";
    advice_limit = "advice-limit";
    declined_bank = "declined-bank";
    advice_bank = "advice-bank";
    declined_cancelled = "declined-cancelled";
    declined_provider(provider) = "declined-provider";
    down_title(provider) = "down-title";
    down_text = "down-text";
    advice_down = "advice-down";
    notice_forbidden(merchant) = "notice-forbidden";
    notice_conflict = "notice-conflict";
    notice_unsettled = "notice-unsettled";
    notice_choose = "notice-choose";
    not_found_title = "not-found-title";
    not_found_text = "not-found-text";
    foreign_title = "foreign-title";
    foreign_text = "foreign-text";
    too_large_title = "too-large-title";
    too_large_text = "too-large-text";
    unreadable_title = "unreadable-title";
    unreadable_text = "unreadable-text";
    failure_title = "failure-title";
    failure_text = "failure-text";
    too_many_requests = "too-many-requests";
    busy = "busy";
    open_payment = "open-payment";
    open_invitation = "open-invitation";
    no_invitation_title = "no-invitation-title";
    no_invitation_text = "no-invitation-text";
    invitation_foreign_text = "invitation-foreign-text";
    invitation_title(reseller) = "invitation-title";
    invitation_text(reseller, business) = "invitation-text";
    invitation_yours = "invitation-yours";
    invitation_code = "invitation-code";
    invitation_code_hint = "invitation-code-hint";
    invitation_accept = "invitation-accept";
    invitation_decline = "invitation-decline";
    invitation_until(date) = "invitation-until";
    invitation_footer = "invitation-footer";
    invitation_authorized_title = "invitation-authorized-title";
    invitation_authorized_text(reseller, business) = "invitation-authorized-text";
    invitation_declined_title = "invitation-declined-title";
    invitation_declined_text(reseller) = "invitation-declined-text";
    invitation_expired_title = "invitation-expired-title";
    invitation_expired_text(reseller) = "invitation-expired-text";
    invitation_revoked_title = "invitation-revoked-title";
    invitation_revoked_text(reseller) = "invitation-revoked-text";
    invitation_error_missing = "invitation-error-missing";
    invitation_error_wrong = "invitation-error-wrong";
    invitation_notice_decide = "invitation-notice-decide";
    provider_unnamed = "provider-unnamed";
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The variables of each message of a catalogue.
    fn variables(source: &str) -> BTreeMap<String, BTreeSet<String>> {
        let resource = FluentResource::try_new(source.to_owned()).unwrap();
        let messages = source.lines().filter_map(|line| {
            let (key, text) = line.split_once(" = ")?;
            let names = text.split("{ $").skip(1);
            let names = names.map(|rest| rest.split(' ').next().unwrap().to_owned());
            Some((key.to_owned(), names.collect()))
        });
        let messages: BTreeMap<_, _> = messages.collect();
        let is_message = |entry: String| entry.starts_with("Message");
        let defined = resource
            .entries()
            .filter(|entry| is_message(format!("{entry:?}")))
            .count();
        assert_eq!(messages.len(), defined, "a message spans lines or repeats");
        messages
    }

    #[test]
    fn every_catalogue_has_the_same_messages_and_variables() {
        let used: BTreeMap<String, BTreeSet<String>> = MESSAGES
            .iter()
            .map(|(key, names)| {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                ((*key).to_owned(), names)
            })
            .collect();
        for ((tag, _), source) in NAMES.iter().zip(SOURCES) {
            assert_eq!(variables(source), used, "{tag}");
        }
    }

    #[test]
    fn every_message_can_be_said_in_every_language() {
        for (index, (tag, _)) in NAMES.iter().enumerate() {
            for (key, names) in MESSAGES {
                let args = names.iter().map(|name| (*name, "X")).collect();
                assert!(
                    CATALOGUES[index].format(key, &args).is_some(),
                    "{tag}: {key}"
                );
            }
        }
    }

    fn negotiated(header: &str) -> &'static str {
        let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, header.parse().unwrap())]);
        Texts::negotiate(&headers).tag()
    }

    #[test]
    fn the_language_that_the_browser_likes_best_is_chosen() {
        for (header, tag) in [
            ("de-AT,de;q=0.9,en;q=0.8", "de"),
            ("en;q=0.5, nl;q=0.7", "nl"),
            ("pt-BR", "pt"),
            ("ja, fr;q=0.2", "fr"),
            ("fr;q=0, es", "es"),
            ("de;q=0", "en"),
            ("ja", "en"),
            ("*", "en"),
            ("", "en"),
            ("de;q=nonsense, fr;q=0.1", "fr"),
            ("no", "nb"),
            ("nn-NO, en;q=0.5", "nb"),
            ("nb-NO", "nb"),
            ("pl-PL,pl;q=0.9", "pl"),
            ("sv-FI", "sv"),
            ("da", "da"),
            ("cs-CZ", "cs"),
            ("hu", "hu"),
            ("ro-MD", "ro"),
        ] {
            assert_eq!(negotiated(header), tag, "{header}");
        }
        assert_eq!(Texts::negotiate(&HeaderMap::new()).tag(), "en");
    }

    #[test]
    fn the_language_that_the_payer_chose_goes_before_the_browsers() {
        let with = |cookie: &str| {
            let headers = [
                (ACCEPT_LANGUAGE, "de-AT".parse().unwrap()),
                (COOKIE, cookie.parse().unwrap()),
            ];
            Texts::negotiate(&HeaderMap::from_iter(headers)).tag()
        };
        assert_eq!(with("a=b; kassette-language=pl; c=d"), "pl");
        for other in [
            "kassette-language=xx",
            "kassette-language",
            "language=pl",
            "",
        ] {
            assert_eq!(with(other), "de", "{other}");
        }
        assert_eq!(Texts::asked(Some("language=hu")), Some("hu"));
        for other in [
            None,
            Some("language=xx"),
            Some("x=1&language=hu"),
            Some("hu"),
        ] {
            assert_eq!(Texts::asked(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_payments_language_goes_before_the_browsers_and_after_the_payers_choice() {
        let say = |locale: &str, cookie: &str| {
            let headers = [
                (ACCEPT_LANGUAGE, "fr-CA".parse().unwrap()),
                (COOKIE, cookie.parse().unwrap()),
            ];
            let texts = Texts::negotiate(&HeaderMap::from_iter(headers));
            texts.preferring(Locale::parse(locale).ok().as_ref()).tag()
        };
        for (locale, tag) in [("de-AT", "de"), ("no", "nb"), ("ja", "fr"), ("", "fr")] {
            assert_eq!(say(locale, ""), tag, "{locale}");
            assert_eq!(say(locale, "kassette-language=pl"), "pl", "{locale}");
        }
    }

    #[test]
    fn an_amount_is_written_as_in_the_region_that_the_browser_names() {
        let say = |accepted: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, accepted.parse().unwrap())]);
            let due = Money {
                amount: kassette_domain::money::Minor(4990),
                currency: kassette_domain::money::Currency::EUR,
            };
            Texts::negotiate(&headers).money(due).to_string()
        };
        assert_eq!(say("de-AT, en"), "€\u{a0}49,90");
        assert_eq!(say("de, de-AT"), "49,90\u{a0}€");
    }

    /// Each language has its own typographic marks: no catalogue contains typewriter quotes or dots.
    #[test]
    fn no_catalogue_has_straight_quotes_or_three_dots() {
        for ((tag, _), source) in NAMES.iter().zip(SOURCES) {
            for mark in ["\"", "'", "...", " - "] {
                assert!(!source.contains(mark), "{tag}: {mark}");
            }
        }
    }

    #[test]
    fn a_value_is_isolated_from_the_direction_of_the_sentence() {
        let english = Texts {
            index: 0,
            region: None,
            is_chosen: false,
        };
        assert_eq!(
            english.go_link("Sandbox"),
            "Continue to \u{2068}Sandbox\u{2069}"
        );
    }
}
