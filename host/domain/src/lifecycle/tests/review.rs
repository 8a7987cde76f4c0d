//! The end of reviews, and permitted acts of operators.

use super::*;

#[test]
fn the_providers_own_review_ends_with_its_final_word() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Review);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(
        (shop.status(), shop.next_action()),
        (Status::Review, None),
        "no final word"
    );
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    for denied in [
        ProviderStatus::Declined,
        ProviderStatus::Failed,
        ProviderStatus::Expired,
    ] {
        let mut shop = Shop::started();
        shop.callback(1, ProviderStatus::Review);
        shop.callback(1, denied);
        assert_eq!(
            (shop.status(), shop.settlement()),
            (Status::Failed, Settlement::Failed)
        );
    }
}

#[test]
fn a_final_word_that_is_wrong_or_risky_still_needs_an_operator() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, ProviderStatus::Review);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Review);
    let wrong = Report {
        received: Minor(1),
        ..confirmed()
    };
    shop.hear(1, wrong, Via::Callback);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
}

#[test]
fn decisions_outside_review_are_refused() {
    let mut shop = Shop::started();
    let wrong = Refusal::WrongStatus(Status::Pending);
    assert_eq!(shop.approve(None), Err(wrong.clone()));
    assert_eq!(shop.decline(), Err(wrong));
}

#[test]
fn cancel_closes_an_open_attempt_first() {
    let mut shop = Shop::started();
    assert_eq!(shop.act(Act::Cancel), Err(Refusal::ProviderFirst(id(1))));
    shop.close(1);
    shop.act(Act::Cancel).unwrap();
    assert_eq!(shop.status(), Status::Cancelled);
    assert_eq!(
        shop.act(Act::Cancel),
        Err(Refusal::WrongStatus(Status::Cancelled))
    );
}

#[test]
fn redaction_erases_the_payer_and_keeps_marks_and_money() {
    let mut shop = Shop::started();
    shop.step(Step::Returned {
        attempt: id(1),
        query: Secret::new("token=1"),
    });
    shop.hear(1, confirmed(), Via::Return);
    shop.aggregate.payment.email_mark = Some([7; 32]);
    shop.step(Step::Redact);
    assert_eq!(shop.attempt(1).returned, None);
    assert_eq!(shop.aggregate.payment.email_mark, Some([7; 32]));
    assert_eq!(shop.attempt(1).vendor.as_ref().unwrap().received, DUE);
}
