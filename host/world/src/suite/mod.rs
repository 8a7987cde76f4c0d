//! Test suite of the behavior that every provider module must have. A module's tests use it with a [`Vendor`] that
//! describes how its vendor differs:
//!
//! ```ignore
//! kassette_world::provider_suite!(AtTheVendor);
//! ```
//!
//! If a vendor does not have a behavior, [`Vendor::LACKS`] lists it with the reason. The test then runs too and
//! must fail, so that an outdated reason is noticed.

pub mod afterwards;
pub mod asking;
pub mod callbacks;
pub mod capturing;
pub mod closing;
pub mod refunds;
pub mod starting;

use kassette_plugin::provider::{
    Attempt, CallbackRequest, Given, Open, Provider, QueryFailure, QueryPurpose, Report,
    Settlement, Status,
};
use kassette_sim::Fault;

use crate::{World, open};

/// A payment method and a currency.
pub type Method = (&'static str, &'static str);

/// All purposes of a query.
pub const PURPOSES: [QueryPurpose; 3] = [
    QueryPurpose::Sync,
    QueryPurpose::Capture,
    QueryPurpose::Cancel,
];

/// Result of a query about a start or refund whose response was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The vendor finds it by its id, if it was created.
    Found,
    /// The query creates it or finds it.
    Made,
    /// The vendor cannot find it by its id. A payment like this cannot be paid without the response.
    Unfindable,
}

/// Properties of a vendor and its simulator that the suite needs.
pub trait Vendor {
    /// The provider module.
    type Module: Provider;
    /// Id of the module.
    const MODULE: &'static str;
    /// Names of behaviors that the vendor does not have, with reasons.
    const LACKS: &'static [(&'static str, &'static str)] = &[];

    /// Methods with a supported currency. Most tests use the first.
    const METHODS: &'static [Method];
    /// A method whose payments can be authorized first and captured later.
    const CAPTURED: Method = Self::METHODS[0];
    /// A method whose payments can be canceled.
    const CLOSABLE: Method = Self::METHODS[0];
    /// A method with a currency that it does not support.
    const FOREIGN: Method;
    /// Name of a secret for the vendor's API, and a wrong value.
    const CREDENTIAL: (&'static str, &'static str);
    /// A well-formed reference that does not exist in the account.
    const UNKNOWN: &'static str;
    /// Purposes for which a query of an unknown attempt creates no payment.
    const UNKNOWN_PURPOSES: &'static [QueryPurpose] = &PURPOSES;
    /// Faults of a start after which it is certain that no payment exists.
    const SURE: &'static [Fault] = &[Fault::Status429, Fault::Down];
    /// Result of a query about a start whose response was lost.
    const LOST: Lost = Lost::Found;
    /// Whether the simulator's faults also affect searches by the attempt's id.
    const SPOILS_SEARCHES: bool = true;
    /// Kind of failure when the reference belongs to another attempt. The text is ignored.
    const FOREIGN_REFERENCE: QueryFailure = QueryFailure::Unavailable(String::new());

    /// Whether money moves only with purpose `capture`, not with the payer's approval.
    const TAKEN_ON_CAPTURE: bool = false;
    /// Whether only the vendor's webhooks report the outcome of a payment.
    const BY_NOTICE: bool = false;
    /// Whether the report of an authorization contains its amount.
    const AUTHORISED_IS_TOLD: bool = false;
    /// Whether a payment can be authorized before it is captured.
    const AUTHORISES: bool = true;
    /// Whether the setting `capture` can be `manual`.
    const CAPTURE_SETTING: bool = false;
    /// Whether the vendor accepts a capture first and confirms it later.
    const CONFIRMS_LATER: bool = false;
    /// Ending of the URL of a capture.
    const CAPTURE_PATH: &'static str = "/capture";
    /// Status of a capture that is accepted but not confirmed.
    const UNDER_WAY: Status = Status::Processing;
    /// Status after a rejected capture.
    const CAPTURE_REFUSED: Status = Status::Review;
    /// The vendor's reason code for a rejected capture, if it has one.
    const CAPTURE_REFUSED_REASON: Option<&'static str> = None;
    /// Whether a capture cannot be repeated after a rejection.
    const REFUSAL_IS_FINAL: bool = false;
    /// Status of an authorization that the vendor has voided.
    const VOIDED: Status = Status::Declined;
    /// The vendor's reason code for the void, if it has one.
    const VOIDED_REASON: Option<&'static str> = None;
    /// Purposes whose queries reveal that the vendor has lost an approved payment.
    const FORGOTTEN_PURPOSES: &'static [QueryPurpose] = &PURPOSES;

    /// Status after a first decline.
    const DECLINED: Status = Status::Declined;
    /// Status after a decline that ends the payment.
    const DECLINED_FOR_GOOD: Status = Status::Declined;
    /// Time during which the payer can still approve after a decline if the account does not keep payments open.
    const DECLINED_AFTER_MS: u64 = 0;
    /// Settlement of a payment in review.
    const HELD: Settlement = Settlement::Confirmed;
    /// Whether the vendor can release a payment in review.
    const HELD_IS_LET_GO: bool = true;
    /// Whether the report of a payment in review contains the amount received.
    const HELD_MONEY: bool = true;
    /// Outcomes of the payer after which a payment can be canceled. `""` means no outcome.
    const CLOSABLE_AFTER: &'static [&'static str] = &["", "pending", "decline", "approve"];
    /// Faults of a cancellation after which it must be repeated.
    const CLOSE_FAULTS: &'static [Fault] = &[
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
    ];
    /// Whether the vendor's page redirects the payer to the return URL.
    const LEADS_BACK: bool = true;
    /// Whether the vendor's page still accepts input after a cancellation.
    const PAGE_STAYS: bool = false;
    /// Time after which an unpaid payment counts as expired, counted from its end.
    const GRACE_MS: u64 = 0;
    /// Whether a report lists refunds individually, not only their sum.
    const LISTS_REFUNDS: bool = true;
    /// The vendor's reason code for a dispute.
    const DISPUTE_REASON: &'static str = "fraudulent";

    /// Method of the payments that the refund tests use.
    const REFUNDED: Method = Self::METHODS[0];
    /// Whether the vendor accepts a refund first and executes it later.
    const REFUNDED_LATER: bool = false;
    /// Whether the payer has to claim a refund.
    const CLAIMED: bool = false;
    /// Whether only the vendor's webhooks report the outcome of a refund.
    const REFUNDS_BY_NOTICE: bool = false;
    /// Ending of the URL of a refund.
    const REFUND_PATH: &'static str = "/refunds";
    /// Result of a query about a refund whose response was lost.
    const REFUND_LOST: Lost = Lost::Found;

    /// Name of the secret that signs webhooks, and another value. `None` if there is no such secret.
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = None;
    /// Age from which a webhook is rejected.
    const NOTICE_TOO_OLD_MS: u64 = 86_400_000;

    /// A new attempt with all payer details that the method needs.
    fn attempt(world: &World<Self::Module>, (method, currency): Method) -> Attempt {
        world.attempt(method, currency)
    }

    /// Completes a refund: the vendor executes it, or the payer claims it.
    fn finish_refund(world: &World<Self::Module>, payment: &Payment<'_, Self>, given: &Given)
    where
        Self: Sized,
    {
        let _ = (payment, given);
        world.confirm();
    }

    /// Expected end of the payer's time to pay. `None` if the vendor reports none.
    fn until(attempt: &Attempt) -> Option<u64> {
        Some(attempt.expires)
    }
}

/// Runs a test, or checks that it fails if the vendor lacks the behavior.
pub fn judge<V: Vendor>(name: &str, behaviour: fn()) {
    match V::LACKS.iter().find(|(lacking, _)| *lacking == name) {
        None => behaviour(),
        Some((_, reason)) => assert!(
            std::panic::catch_unwind(behaviour).is_err(),
            "{} has this behaviour, and its description says that it has not: {reason}",
            V::MODULE
        ),
    }
}

/// A new world for the vendor's module.
pub fn world<V: Vendor>() -> World<V::Module> {
    World::new(V::MODULE)
}

/// A started payment with its latest reference, which the host would store.
pub struct Payment<'w, V: Vendor> {
    pub world: &'w World<V::Module>,
    pub attempt: Attempt,
    pub open: Open,
    reference: String,
}

impl<'w, V: Vendor> Payment<'w, V> {
    pub fn start(world: &'w World<V::Module>, method: Method) -> Self {
        let attempt = V::attempt(world, method);
        let open = open(world.start(&attempt));
        Self::new(world, attempt, open)
    }

    pub fn new(world: &'w World<V::Module>, attempt: Attempt, open: Open) -> Self {
        let reference = open.reference.clone();
        Self {
            world,
            attempt,
            open,
            reference,
        }
    }

    /// An approved payment that waits for its capture.
    pub fn authorised(world: &'w World<V::Module>) -> Self {
        Self::authorised_by(world, V::CAPTURE_SETTING)
    }

    /// Like [`authorised`](Self::authorised), by the account's setting or by a fault of the simulator.
    pub fn authorised_by(world: &'w World<V::Module>, setting: bool) -> Self {
        if setting {
            world.change_setting("capture", "manual");
        } else {
            world.fault(Fault::NeedsCapture);
        }
        let mut payment = Self::start(world, V::CAPTURED);
        payment.approve();
        payment
    }

    /// A completed payment.
    pub fn paid(world: &'w World<V::Module>) -> Self {
        let mut payment = Self::start(world, V::METHODS[0]);
        payment.approve();
        assert_eq!(payment.settle().status, Status::Completed);
        payment
    }

    /// Submits the payer's choice on the vendor's page and returns the HTTP status.
    pub fn choose(&self, outcome: &str) -> u16 {
        self.world.choose(&self.open, outcome).0
    }

    /// Approves as the payer. Also takes the callback if only callbacks report the outcome.
    pub fn approve(&mut self) {
        let status = self.choose("approve");
        assert!(status < 400, "{status}");
        if V::BY_NOTICE {
            self.hear();
        }
    }

    /// Queries the status and stores the new reference.
    ///
    /// # Errors
    /// The error of the module.
    pub fn try_ask(&mut self, purpose: QueryPurpose) -> Result<Report, QueryFailure> {
        let asked = self
            .world
            .query(&self.attempt, Some(&self.reference), purpose);
        if let Ok(report) = &asked {
            self.reference.clone_from(&report.reference);
        }
        asked
    }

    pub fn ask(&mut self, purpose: QueryPurpose) -> Report {
        self.try_ask(purpose).unwrap()
    }

    /// Passes a callback to the module and returns the reports in its notices.
    pub fn take(&mut self, news: &CallbackRequest) -> Vec<Report> {
        let notices = self.world.callback(news).unwrap().notices;
        let reports: Vec<_> = notices.into_iter().filter_map(|one| one.report).collect();
        if let Some(last) = reports.last() {
            self.reference.clone_from(&last.reference);
        }
        reports
    }

    /// Waits for the next callback and returns its reports.
    pub fn hear(&mut self) -> Vec<Report> {
        self.take(&self.world.next_callback())
    }

    /// Report after the vendor has confirmed what is pending.
    pub fn confirmed(&mut self) -> Report {
        if V::BY_NOTICE {
            self.hear().pop().unwrap()
        } else {
            self.world.confirm();
            self.ask(QueryPurpose::Sync)
        }
    }

    /// Report of an approved payment after the host has captured it if necessary.
    pub fn settle(&mut self) -> Report {
        let purpose = if V::TAKEN_ON_CAPTURE {
            QueryPurpose::Capture
        } else {
            QueryPurpose::Sync
        };
        let report = self.ask(purpose);
        match report.status {
            Status::Processing => self.finish(),
            _ => report,
        }
    }

    /// Report of an authorized payment after its capture.
    pub fn finish(&mut self) -> Report {
        let report = self.ask(QueryPurpose::Capture);
        match report.status {
            Status::Processing => self.confirmed(),
            _ => report,
        }
    }
}

/// Creates a test for each behavior. The argument is a type that implements [`Vendor`].
#[macro_export]
macro_rules! provider_suite {
    ($vendor:ty) => {
        $crate::provider_suite!(@each $vendor;
            starting::a_payment_is_started_approved_and_completed,
            starting::a_repeated_start_finds_the_payment_whatever_was_learnt_of_the_payer,
            starting::what_surely_did_nothing_is_unavailable,
            starting::what_may_have_done_something_is_uncertain_and_a_repeat_makes_it_certain,
            starting::a_currency_that_the_method_does_not_take_is_for_another_provider,
            starting::wrong_credentials_are_for_another_provider,
            starting::health_tells_whether_the_vendor_can_be_reached,
            starting::a_vendor_that_was_restarted_still_knows_its_payments,
            asking::every_outcome_has_its_report,
            asking::a_payer_who_pays_after_a_decline_is_told_as_paid,
            asking::what_was_declined_for_good_can_no_longer_be_paid,
            asking::a_question_that_got_no_answer_is_no_news,
            asking::a_payment_that_is_held_is_told_so_whatever_the_purpose_until_it_is_let_go,
            asking::what_was_received_is_told_as_the_vendor_took_it,
            asking::a_payment_that_ran_out_of_time_is_expired,
            asking::an_unknown_attempt_is_absent,
            asking::what_the_vendor_has_forgotten_is_absent,
            asking::a_reference_of_another_attempt_tells_nothing,
            capturing::an_authorisation_is_captured_on_capture_alone_and_once,
            capturing::a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture,
            capturing::a_capture_under_way_is_no_money_and_is_neither_repeated_nor_called_off,
            capturing::a_capture_that_is_refused_takes_no_money,
            capturing::an_authorisation_that_the_vendor_voids_is_over_whatever_is_asked,
            closing::closing_proves_that_nothing_can_be_paid,
            closing::what_was_closed_cannot_be_started_again,
            closing::a_close_that_cannot_be_done_now_is_not_certain,
            closing::what_was_paid_before_it_was_closed_is_told_as_paid,
            afterwards::refunds_are_told_one_by_one_and_one_that_fails_no_longer_counts,
            afterwards::a_dispute_keeps_its_id_until_it_is_won_or_lost,
            refunds::terms_name_methods_of_the_module_without_a_request,
            refunds::all_of_the_money_is_given_back_and_then_nothing_is_left,
            refunds::parts_are_given_back_and_never_more_than_is_left,
            refunds::the_same_order_gives_back_once_even_when_the_vendors_keys_have_ended,
            refunds::a_refund_whose_answer_is_lost_is_uncertain_and_given_once,
            refunds::what_may_have_given_something_back_is_uncertain_and_given_once,
            refunds::what_surely_gave_nothing_back_is_unavailable,
            refunds::a_refund_that_fails_later_is_told_and_can_be_given_again,
            refunds::our_refund_is_told_by_its_order_and_one_of_the_dashboard_by_none,
            refunds::nothing_is_given_back_of_a_payment_that_the_vendor_does_not_know,
            refunds::wrong_credentials_give_nothing_back_and_prove_nothing,
            callbacks::news_names_the_attempt,
            callbacks::forged_news_is_refused,
            callbacks::news_with_another_byte_is_refused,
            callbacks::news_signed_with_the_secret_before_counts_during_a_rotation_alone,
            callbacks::news_that_is_too_old_is_refused,
            callbacks::news_told_twice_or_in_the_wrong_order_changes_nothing,
        );
    };
    (@each $vendor:ty; $($module:ident::$name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let behaviour = $crate::suite::$module::$name::<$vendor>;
                $crate::suite::judge::<$vendor>(stringify!($name), behaviour);
            }
        )+

        #[test]
        fn what_the_vendor_lacks_is_named_as_the_suite_names_it() {
            let known = [$(stringify!($name)),+];
            for (lacking, reason) in <$vendor as $crate::suite::Vendor>::LACKS {
                assert!(known.contains(lacking), "{lacking}");
                assert!(!reason.is_empty(), "{lacking}");
            }
        }
    };
}
