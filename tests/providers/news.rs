//! Callbacks that are lost, late, repeated, forged, replayed, sent to the wrong address or in the wrong order.
//! They contain the simulators' exact bytes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Answer;
use crate::table::{Has, lacks};
use crate::tap::Letter;
use crate::visit::Visit;
use crate::world::{Desk, calm, hurried};

/// The facts about money. Other fields, such as the time of the latest query, may change.
async fn essence(visit: &Visit) -> (Value, Vec<String>, Vec<String>, Vec<String>, u64) {
    let server = visit.server();
    (
        visit.now().await,
        server.moves(&visit.payment).await,
        visit.events().await,
        visit.attempts().await,
        visit.taken().await,
    )
}

/// Asserts that a forged callback was refused or, if the provider does not sign callbacks, was at most a reason to
/// query the provider.
fn assert_refused(desk: &Desk, answer: &Answer) {
    match lacks(&desk.module.name, Has::Signature) {
        None => assert_eq!(answer.status, 401, "{answer:?}"),
        Some(_) => assert!(answer.status < 500, "{answer:?}"),
    }
}

#[tokio::test]
async fn a_callback_that_comes_twice_counts_once() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        desk.fault("callback-twice").await;
        visit.press("approve").await.expect(303);
        visit.is_paid().await;
        let words = visit.words().await;
        let mut letters = world.tap.wait(&words, 2).await;
        if letters[0].body != letters[1].body {
            // The next event of the payment came in between.
            letters = world.tap.wait(&words, 3).await;
        }
        let bodies: BTreeSet<_> = letters.iter().map(|letter| &letter.body).collect();
        assert!(bodies.len() < letters.len(), "one of them came twice");
        for letter in &letters {
            assert_eq!(letter.answered, Some(200), "{letter:?}");
        }
        visit.is_paid().await;
        let moves = desk.server().moves(&visit.payment).await;
        let paid = moves.iter().filter(|line| line.ends_with(">completed"));
        assert_eq!(paid.count(), 1, "{moves:?}");
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_forged_claim_of_money_is_never_believed() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        desk.fault("callback-forged").await;
        let back = visit.press("decline").await.expect(303);
        let letters = world.tap.wait(&visit.words().await, 1).await;
        match lacks(&desk.module.name, Has::Signature) {
            None => {
                let at_hand = lacks(&desk.module.name, Has::ProofAtHand).is_none();
                let put_off = !at_hand && letters[0].answered == Some(503);
                assert!(put_off || letters[0].answered == Some(401), "{letters:?}");
                assert_eq!(visit.now().await["status"], "pending", "nothing was heard");
            }
            // A stranger can forge such a callback: the gateway queries the provider, which reports the decline.
            Some(_) => drop(visit.until("created").await),
        }
        visit.come_back(&back).await;
        let ends = [Has::AnswersAboutDeclines, Has::Leaving]
            .iter()
            .all(|has| lacks(&desk.module.name, *has).is_none());
        if ends {
            visit.until("created").await;
        }
        visit.is_unpaid().await;
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_letter_that_was_changed_on_its_way_is_refused() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        world.tap.keep(desk.account());
        let other = desk.visit(desk.any_method()).await;
        other.press("approve").await.expect(303);
        let letter = world.tap.wait(&other.words().await, 1).await.remove(0);
        // Replaces the other payment's references by this one's, so that a payment claims another one's money.
        let mut changed = letter.clone();
        for (its, ours) in other.names().await.iter().zip(visit.names().await) {
            changed = changed.with(its, &ours);
        }
        assert_ne!(changed.body, letter.body, "it names the payment");
        let before = essence(&visit).await;
        let answer = world.tap.send(&changed, desk.account()).await;
        match lacks(&desk.module.name, Has::SealedBody) {
            None => assert_eq!(answer.status, 401, "{answer:?}"),
            // The gateway ignores the content and queries the provider.
            Some(_) => assert!(answer.status < 500, "{answer:?}"),
        }
        assert_eq!(essence(&visit).await, before);
        visit.is_unpaid().await;
        world.tap.pass(desk.account());
        world.tap.send(&letter, desk.account()).await.expect(200);
        other.is_paid().await;
        // A query caused by any callback reports that the payer has not paid.
        assert_eq!(visit.now().await["status"], "pending");
        visit.is_unpaid().await;
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_letter_to_another_account_changes_nothing_there_or_here() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        world.tap.keep(desk.account());
        visit.press("approve").await.expect(303);
        let letter = world.tap.wait(&visit.words().await, 1).await.remove(0);
        let before = essence(&visit).await;
        let live = world.tap.send(&letter, &desk.module.live_account).await;
        assert_refused(&desk, &live);
        for module in &world.modules {
            if module.name != desk.module.name {
                let answer = world.tap.send(&letter, &module.account).await;
                assert!(
                    (400..500).contains(&answer.status) || answer.status == 200,
                    "{answer:?}"
                );
            }
        }
        assert_eq!(essence(&visit).await, before, "no account has believed it");
        world.tap.pass(desk.account());
        world.tap.send(&letter, desk.account()).await.expect(200);
        visit.is_paid().await;
    };
    world.each(each).await;
}

#[tokio::test]
async fn an_older_letter_that_comes_after_a_newer_one_takes_nothing_back() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        desk.fault("callback-reordered").await;
        visit.press("approve").await.expect(303);
        visit.is_paid().await;
        let earlier = lacks(&desk.module.name, Has::EarlierNews);
        let number = if earlier.is_none() { 2 } else { 1 };
        let letters = world.tap.wait(&visit.words().await, number).await;
        for letter in &letters {
            assert_eq!(letter.answered, Some(200), "{letter:?}");
        }
        visit.is_paid().await;
        assert_eq!(visit.attempts().await, ["captured"]);
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_decline_that_is_heard_after_the_payer_has_paid_takes_nothing_back() {
    let world = calm().await;
    let each = async |desk: Desk| {
        if lacks(&desk.module.name, Has::NewsOfDeclines).is_some() {
            return;
        }
        let visit = desk.visit(desk.any_method()).await;
        world.tap.keep(desk.account());
        visit.press("decline").await.expect(303);
        let words = visit.words().await;
        world.tap.wait(&words, 1).await;
        let again = visit.press("approve").await;
        let letters: Vec<Letter> = if again.status == 303 {
            world.tap.wait(&words, 2).await
        } else {
            // Declined permanently: the only callback is true.
            assert_eq!(again.status, 409);
            world.tap.letters(&words)
        };
        // Callbacks that these cause are passed on.
        world.tap.pass(desk.account());
        for letter in letters.iter().rev() {
            let answer = world.tap.send(letter, desk.account()).await;
            assert_eq!(answer.status / 100, 2, "{answer:?}");
        }
        if again.status == 303 {
            visit.is_paid().await;
            assert_eq!(visit.attempts().await, ["captured"]);
        } else {
            visit.until("created").await;
            visit.is_unpaid().await;
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn a_letter_that_is_sent_again_changes_nothing_at_once_or_a_day_later() {
    let (world, _turn) = hurried().await;
    let kept = tokio::sync::Mutex::new(Vec::new());
    let pay = async |desk: Desk| {
        let paid = desk.paid(desk.any_method()).await;
        let letter = world.tap.wait(&paid.words().await, 1).await.pop().unwrap();
        let before = essence(&paid).await;
        world.tap.send(&letter, desk.account()).await.expect(200);
        assert_eq!(essence(&paid).await, before);
        if lacks(&desk.module.name, Has::Refunds).is_none() {
            // An old callback must not undo a refund.
            paid.press("refund").await.expect(200);
            let refunded = async || {
                let events = paid.events().await;
                events
                    .contains(&"payment.refunded".to_owned())
                    .then_some(())
            };
            desk.server().wait_for("the refund", refunded).await;
        }
        let before = essence(&paid).await;
        world.tap.send(&letter, desk.account()).await;
        assert_eq!(essence(&paid).await, before);
        kept.lock().await.push((paid, letter, before));
    };
    world.each(pay).await;
    world.server.advance(24 * 3600).await;
    for (paid, letter, before) in kept.into_inner() {
        let answer = world.tap.send(&letter, paid.desk.account()).await;
        assert!(answer.status < 500, "{answer:?}");
        assert_eq!(essence(&paid).await, before, "{}", paid.desk.module.name);
    }
}

#[tokio::test]
async fn a_payer_who_comes_back_before_any_callback_has_paid() {
    let world = calm().await;
    let each = async |desk: Desk| {
        let visit = desk.visit(desk.any_method()).await;
        desk.fault("callback-never").await;
        let back = visit.press("approve").await.expect(303);
        visit.come_back(&back).await;
        if lacks(&desk.module.name, Has::AnswersAboutMoney).is_none() {
            visit.is_paid().await;
        } else {
            visit.until("processing").await;
        }
    };
    world.each(each).await;
}

#[tokio::test]
async fn what_no_callback_told_is_found_by_asking_and_a_late_one_adds_nothing() {
    let (world, _turn) = hurried().await;
    let waiting = tokio::sync::Mutex::new(Vec::new());
    let pay = async |desk: Desk| {
        for fault in ["callback-never", "callback-late"] {
            let visit = desk.visit(desk.any_method()).await;
            desk.fault(fault).await;
            let back = visit.press("approve").await.expect(303);
            waiting.lock().await.push((visit, fault, back));
        }
    };
    world.each(pay).await;
    let waiting = waiting.into_inner();
    // One payment is queried; the other's callback arrives.
    world.server.advance(301).await;
    for (visit, fault, back) in waiting {
        let told = lacks(&visit.desk.module.name, Has::AnswersWithoutReturn);
        if told.is_some() && fault == "callback-never" {
            assert_eq!(visit.now().await["status"], "pending");
            visit.come_back(&back).await;
        }
        visit.is_paid().await;
        if fault == "callback-late" {
            let letters = world.tap.wait(&visit.words().await, 1).await;
            assert_eq!(letters[0].answered, Some(200));
            visit.is_paid().await;
        }
    }
}
