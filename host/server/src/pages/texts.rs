//! What payers read, in their language: message catalogues and their negotiation.
//!
//! Each message is a method of [`Texts`], so a template that names none that exists, or forgets a
//! variable, does not compile; a message that no template uses is a warning. That every catalogue
//! holds them all is a test.

use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use fluent_langneg::{LanguageIdentifier, NegotiationStrategy, negotiate_languages};
use http::HeaderMap;
use http::header::ACCEPT_LANGUAGE;

/// Tags and sources of the catalogues. The first is the default, and complete by definition.
const SOURCES: [(&str, &str); 6] = [
    ("en", include_str!("../../locales/en.ftl")),
    ("de", include_str!("../../locales/de.ftl")),
    ("fr", include_str!("../../locales/fr.ftl")),
    ("es", include_str!("../../locales/es.ftl")),
    ("nl", include_str!("../../locales/nl.ftl")),
    ("pt", include_str!("../../locales/pt.ftl")),
];

/// Ranges of an `Accept-Language` header that are read: browsers send a handful.
const MOST_RANGES: usize = 16;

struct Catalogue {
    bundle: FluentBundle<FluentResource>,
}

static CATALOGUES: LazyLock<Vec<Catalogue>> =
    LazyLock::new(|| SOURCES.iter().map(|source| read(source.1)).collect());

/// The catalogues' tags, in their order.
static TAGS: LazyLock<Vec<LanguageIdentifier>> = LazyLock::new(|| {
    SOURCES
        .iter()
        .map(|(tag, _)| tag.parse().unwrap_or_default())
        .collect()
});

/// Reads a catalogue. Its sources are compiled in and a test reads them all strictly; were one
/// damaged all the same, what can be read of it serves and English fills the holes.
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
}

impl Texts {
    /// The texts in the language that the browser likes best of those that exist.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Self {
        let wished = headers
            .get(ACCEPT_LANGUAGE)
            .and_then(|value| value.to_str().ok())
            .map(ranges)
            .unwrap_or_default();
        let index =
            negotiate_languages(&wished, TAGS.as_slice(), None, NegotiationStrategy::Lookup)
                .first()
                .and_then(|best| TAGS.iter().position(|tag| tag == *best))
                .unwrap_or(0);
        Self { index }
    }

    /// The language's tag, BCP 47.
    pub(crate) fn tag(self) -> &'static str {
        SOURCES.get(self.index).map_or("en", |(tag, _)| tag)
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

/// The ranges of an `Accept-Language` header, best first (RFC 9110, 12.5.4). Equal weights keep
/// their order; a weight of zero refuses.
fn ranges(header: &str) -> Vec<LanguageIdentifier> {
    let mut weighted: Vec<(u16, LanguageIdentifier)> = header
        .split(',')
        .take(MOST_RANGES)
        .filter_map(|range| {
            let mut parts = range.split(';');
            let tag = parts.next()?.trim().parse().ok()?;
            let weight = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(Some(1000), thousandths)?;
            (weight > 0).then_some((weight, tag))
        })
        .collect();
    weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    weighted.into_iter().map(|(_, tag)| tag).collect()
}

/// A weight in thousandths: `0.8` is 800; none for what is no weight.
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
    summary_heading = "summary-heading";
    summary_merchant = "summary-merchant";
    summary_amount = "summary-amount";
    summary_order = "summary-order";
    choose_title(amount, merchant) = "choose-title";
    choose_heading = "choose-heading";
    choose_hint = "choose-hint";
    choose_via(provider) = "choose-via";
    choose_more(provider) = "choose-more";
    changed_title = "changed-title";
    changed_text(method, provider) = "changed-text";
    changed_continue(provider) = "changed-continue";
    changed_other = "changed-other";
    go_title(provider) = "go-title";
    go_text(provider, amount) = "go-text";
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
    error_summary = "error-summary";
    error_required = "error-required";
    error_email = "error-email";
    error_phone = "error-phone";
    error_length(most) = "error-length";
    error_choice = "error-choice";
    error_characters = "error-characters";
    show_title(provider) = "show-title";
    show_details = "show-details";
    show_details_hint = "show-details-hint";
    show_qr = "show-qr";
    show_link = "show-link";
    show_paid = "show-paid";
    completed_title = "completed-title";
    completed_text(amount, merchant) = "completed-text";
    completed_test = "completed-test";
    completed_part_returned = "completed-part-returned";
    completed_disputed = "completed-disputed";
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
    review_title = "review-title";
    review_text(merchant) = "review-text";
    failed_title = "failed-title";
    failed_text(merchant) = "failed-text";
    cancelled_title = "cancelled-title";
    cancelled_text(merchant) = "cancelled-text";
    expired_title = "expired-title";
    expired_text(merchant) = "expired-text";
    checking_title = "checking-title";
    checking_text(provider) = "checking-text";
    checking_retry = "checking-retry";
    waiting_title(provider) = "waiting-title";
    waiting_text(provider) = "waiting-text";
    declined_title = "declined-title";
    declined_text(provider) = "declined-text";
    ended_title = "ended-title";
    ended_text(provider) = "ended-text";
    choose_again = "choose-again";
    see_current = "see-current";
    direct_title = "direct-title";
    direct_text(merchant) = "direct-text";
    unavailable_title = "unavailable-title";
    unavailable_text(merchant) = "unavailable-text";
    back_to_merchant = "back-to-merchant";
    back_soon(merchant) = "back-soon";
    close_page = "close-page";
    updates_itself = "updates-itself";
    updates_pause = "updates-pause";
    updates_paused = "updates-paused";
    check_again = "check-again";
    notice_still_open(provider) = "notice-still-open";
    notice_declined = "notice-declined";
    notice_not_available = "notice-not-available";
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
        for (tag, source) in SOURCES {
            assert_eq!(variables(source), used, "{tag}");
        }
    }

    #[test]
    fn every_message_can_be_said_in_every_language() {
        for (index, (tag, _)) in SOURCES.iter().enumerate() {
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
        ] {
            assert_eq!(negotiated(header), tag, "{header}");
        }
        assert_eq!(Texts::negotiate(&HeaderMap::new()).tag(), "en");
    }

    #[test]
    fn a_value_is_isolated_from_the_direction_of_the_sentence() {
        let english = Texts { index: 0 };
        assert_eq!(
            english.go_link("Sandbox"),
            "Continue to \u{2068}Sandbox\u{2069}"
        );
    }
}
