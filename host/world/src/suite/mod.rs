//! What every provider module has to do, told by behaviour. A module's tests take it unchanged, with a
//! [`Vendor`] that describes what differs from vendor to vendor:
//!
//! ```ignore
//! kassette_world::provider_suite!(AtTheVendor);
//! ```
//!
//! A behaviour that a vendor does not have stands in [`Vendor::LACKS`] with the reason. It is run all the
//! same and has to fail: a reason that is true no longer makes the module's tests fail.

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

/// A payment method with a currency.
pub type Method = (&'static str, &'static str);

/// Every purpose that the host has.
pub const PURPOSES: [QueryPurpose; 3] = [
    QueryPurpose::Sync,
    QueryPurpose::Capture,
    QueryPurpose::Cancel,
];

/// What a question about a start whose answer was lost is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The payment is found by the attempt's id, where it was made.
    Found,
    /// The question makes the payment, or finds it.
    Made,
    /// The vendor finds no payment by the attempt's id, and none can be paid without the answer.
    Unfindable,
}

/// What the suite has to know about a vendor and its simulator.
pub trait Vendor {
    /// The module.
    type Module: Provider;
    /// The module's id.
    const MODULE: &'static str;
    /// Names of behaviours that the vendor does not have, each with the reason.
    const LACKS: &'static [(&'static str, &'static str)] = &[];

    /// Methods with a currency that they take. Most behaviours are tried with the first.
    const METHODS: &'static [Method];
    /// A method whose payments can be authorised and captured later.
    const CAPTURED: Method = Self::METHODS[0];
    /// A method whose payments can be called off.
    const CLOSABLE: Method = Self::METHODS[0];
    /// A method with a currency that it does not take.
    const FOREIGN: Method;
    /// A secret that the vendor's interface asks for, and a wrong value.
    const CREDENTIAL: (&'static str, &'static str);
    /// A reference in the vendor's form that the account does not know.
    const UNKNOWN: &'static str;
    /// Purposes that make no payment of an attempt that the vendor does not know.
    const UNKNOWN_PURPOSES: &'static [QueryPurpose] = &PURPOSES;
    /// Faults of a start that prove that nothing was done.
    const SURE: &'static [Fault] = &[Fault::Status429, Fault::Down];
    /// What a question about a start whose answer was lost is told.
    const LOST: Lost = Lost::Found;
    /// The simulator's faults spoil a search by the attempt's id, too.
    const SPOILS_SEARCHES: bool = true;
    /// What a question about another attempt's payment is told, its text aside.
    const FOREIGN_REFERENCE: QueryFailure = QueryFailure::Unavailable(String::new());

    /// The payer's approval moves no money yet: the purpose `capture` does.
    const TAKEN_ON_CAPTURE: bool = false;
    /// Only the vendor's notices tell what became of a payment.
    const BY_NOTICE: bool = false;
    /// An authorisation is told with its amount.
    const AUTHORISED_IS_TOLD: bool = false;
    /// A payment can be authorised first.
    const AUTHORISES: bool = true;
    /// The setting `capture` can be `manual`.
    const CAPTURE_SETTING: bool = false;
    /// The vendor takes a capture in and confirms it later.
    const CONFIRMS_LATER: bool = false;
    /// How the address of a capture ends.
    const CAPTURE_PATH: &'static str = "/capture";
    /// What a capture that was taken in is told as.
    const UNDER_WAY: Status = Status::Processing;
    /// What a refused capture is told as.
    const CAPTURE_REFUSED: Status = Status::Review;
    /// The vendor's word for why it refused a capture, where it has one.
    const CAPTURE_REFUSED_REASON: Option<&'static str> = None;
    /// No second capture is possible after a refused one.
    const REFUSAL_IS_FINAL: bool = false;
    /// What an authorisation that the vendor voided is told as.
    const VOIDED: Status = Status::Declined;
    /// The vendor's word for why it voided it, where it has one.
    const VOIDED_REASON: Option<&'static str> = None;
    /// Purposes that find out that the vendor has forgotten an approved payment.
    const FORGOTTEN_PURPOSES: &'static [QueryPurpose] = &PURPOSES;

    /// What a first decline is told as.
    const DECLINED: Status = Status::Declined;
    /// What a decline is told as where it ends the payment.
    const DECLINED_FOR_GOOD: Status = Status::Declined;
    /// How long the payer may still approve a declined try, where the account keeps nothing open.
    const DECLINED_AFTER_MS: u64 = 0;
    /// The settlement of a payment that is held for review.
    const HELD: Settlement = Settlement::Confirmed;
    /// A payment that is held for review can be let go at the vendor.
    const HELD_IS_LET_GO: bool = true;
    /// A payment that is held for review is told with its money.
    const HELD_MONEY: bool = true;
    /// Choices of the payer after which a payment can be called off; none made is `""`.
    const CLOSABLE_AFTER: &'static [&'static str] = &["", "pending", "decline", "approve"];
    /// Faults of a close after which it has to be asked again.
    const CLOSE_FAULTS: &'static [Fault] = &[
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status429,
        Fault::Status500,
        Fault::Malformed,
        Fault::Truncated,
    ];
    /// The vendor's page leads back to the shop.
    const LEADS_BACK: bool = true;
    /// The vendor's page goes on when a payment was called off.
    const PAGE_STAYS: bool = false;
    /// How long after its end an unpaid payment is over.
    const GRACE_MS: u64 = 0;
    /// Refunds are told one by one, and not as a sum alone.
    const LISTS_REFUNDS: bool = true;
    /// The vendor's word for why a payer disputes.
    const DISPUTE_REASON: &'static str = "fraudulent";

    /// A method whose payments are given back in these behaviours.
    const REFUNDED: Method = Self::METHODS[0];
    /// The vendor takes a refund in and does it later.
    const REFUNDED_LATER: bool = false;
    /// The payer has to claim what is given back.
    const CLAIMED: bool = false;
    /// Only the vendor's notices tell what became of a refund.
    const REFUNDS_BY_NOTICE: bool = false;
    /// How the address of a refund ends.
    const REFUND_PATH: &'static str = "/refunds";
    /// What a question about a refund whose answer was lost is told.
    const REFUND_LOST: Lost = Lost::Found;

    /// The secret that notices are signed with, and another value.
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = None;
    /// The age from which a notice is no longer believed.
    const NOTICE_TOO_OLD_MS: u64 = 86_400_000;

    /// A new attempt with everything that the method has to know of the payer.
    fn attempt(world: &World<Self::Module>, (method, currency): Method) -> Attempt {
        world.attempt(method, currency)
    }

    /// Lets the vendor, or the payer who has to claim it, do its part of a refund.
    fn finish_refund(world: &World<Self::Module>, payment: &Payment<'_, Self>, given: &Given)
    where
        Self: Sized,
    {
        let _ = (payment, given);
        world.confirm();
    }

    /// Until when the payer can pay, where the vendor tells it.
    fn until(attempt: &Attempt) -> Option<u64> {
        Some(attempt.expires)
    }
}

/// Runs a behaviour, or proves that the vendor does not have it.
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

/// A new world of the vendor's.
pub fn world<V: Vendor>() -> World<V::Module> {
    World::new(V::MODULE)
}

/// A started payment, with the newest reference to it, as the host keeps it.
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
        Self::of(world, attempt, open)
    }

    pub fn of(world: &'w World<V::Module>, attempt: Attempt, open: Open) -> Self {
        let reference = open.reference.clone();
        Self {
            world,
            attempt,
            open,
            reference,
        }
    }

    /// A payment that the payer has approved and that waits to be captured.
    pub fn authorised(world: &'w World<V::Module>) -> Self {
        Self::authorised_by(world, V::CAPTURE_SETTING)
    }

    /// The same, by the account's setting or by the vendor's own way.
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

    /// A payment that was paid.
    pub fn paid(world: &'w World<V::Module>) -> Self {
        let mut payment = Self::start(world, V::METHODS[0]);
        payment.approve();
        assert_eq!(payment.settle().status, Status::Completed);
        payment
    }

    /// What the payer does on the vendor's page: the answer's status.
    pub fn choose(&self, outcome: &str) -> u16 {
        self.world.choose(&self.open, outcome).0
    }

    /// The payer approves, and the host hears of it where it cannot ask.
    pub fn approve(&mut self) {
        let status = self.choose("approve");
        assert!(status < 400, "{status}");
        if V::BY_NOTICE {
            self.hear();
        }
    }

    /// Asks the vendor.
    ///
    /// # Errors
    /// The module's.
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

    /// What a piece of news reports.
    pub fn take(&mut self, news: &CallbackRequest) -> Vec<Report> {
        let notices = self.world.callback(news).unwrap().notices;
        let reports: Vec<_> = notices.into_iter().filter_map(|one| one.report).collect();
        if let Some(last) = reports.last() {
            self.reference.clone_from(&last.reference);
        }
        reports
    }

    /// What the next piece of news reports.
    pub fn hear(&mut self) -> Vec<Report> {
        self.take(&self.world.next_callback())
    }

    /// What is told once the vendor has confirmed what it was asked for.
    pub fn confirmed(&mut self) -> Report {
        if V::BY_NOTICE {
            self.hear().pop().unwrap()
        } else {
            self.world.confirm();
            self.ask(QueryPurpose::Sync)
        }
    }

    /// What is told of a payment that was approved once the host has done its part.
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

    /// What is told of an authorised payment once the host has captured it.
    pub fn finish(&mut self) -> Report {
        let report = self.ask(QueryPurpose::Capture);
        match report.status {
            Status::Processing => self.confirmed(),
            _ => report,
        }
    }
}

/// Makes a test of each behaviour. The type is a [`Vendor`].
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
