use proptest::prelude::*;

use super::*;
use crate::sled::memory::payment_index::listing::{MAX_STEPS, MAX_WALK};
use crate::sled::memory::payment_index::period::Period;

fn entry(number: u32, order: u8, merchant: u64, at: u64) -> Entry {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&number.to_be_bytes());
    let reference = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let token = number.to_be_bytes();
    Entry::new(
        PaymentId::from_bytes(id),
        MerchantId(merchant),
        Time::from_millis(at),
        [reference, token, [0, 0, 0, order], [0, 0, 0, order]],
    )
}

/// All payments of a list from a period, page by page.
fn walk(index: &PaymentIndex, list: List, period: Period, page: usize) -> Vec<Position> {
    let mut positions = Vec::new();
    let mut after = None;
    loop {
        let walked = index.listed(list, period, after, page);
        positions.extend(walked.positions);
        if walked.ended {
            return positions;
        }
        after = walked.last;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lists_are_newest_first_and_whole_at_any_order_of_times(
        made in prop::collection::vec((0_u8..4, 0_u64..3, 0_u64..50), 1..3000),
        // Also times beyond the range of a chunk, in both directions.
        millis in prop::sample::select(vec![1, 600_000, 300_000_000]),
        page in 1_usize..70,
        between in (prop::option::of(0_u64..55), prop::option::of(0_u64..55)),
    ) {
        let mut index = PaymentIndex::default();
        let mut model = Vec::new();
        for (number, (order, merchant, at)) in made.into_iter().enumerate() {
            let (number, at) = (u32::try_from(number).unwrap(), at * millis);
            let entry = entry(number, order, merchant, at);
            index.enter(&entry);
            model.push((at, number, order, merchant, entry));
        }
        prop_assert_eq!(index.len(), model.len());
        for (_, number, .., entry) in &model {
            for mark in [LookupKey::Reference, LookupKey::Token] {
                let found: Vec<_> = index.found(mark, entry.marks[mark as usize]).collect();
                prop_assert_eq!(found, vec![*number]);
            }
        }
        let all = |list| walk(&index, list, Period::default(), page);
        let expected = |fits: &dyn Fn(u8, u64) -> bool| {
            let mut fitting: Vec<_> = model.iter().filter(|m| fits(m.2, m.3)).collect();
            fitting.sort_by_key(|m| std::cmp::Reverse((m.0, m.1)));
            fitting.iter().map(|m| m.1).collect::<Vec<_>>()
        };
        // A payment is inserted behind at most this many newer ones.
        if model.len() < MAX_STEPS {
            prop_assert_eq!(all(List::All), expected(&|_, _| true));
            prop_assert_eq!(all(List::Of(MerchantId(1))), expected(&|_, m| m == 1));
            prop_assert_eq!(all(List::With(LookupKey::Order, [0, 0, 0, 2])), expected(&|o, _| o == 2));
        } else {
            for (list, fits) in [
                (List::All, &(|_, _| true) as &dyn Fn(u8, u64) -> bool),
                (List::Of(MerchantId(1)), &|_, m| m == 1),
                (List::With(LookupKey::Order, [0, 0, 0, 2]), &|o, _| o == 2),
            ] {
                let (mut found, mut wanted) = (all(list), expected(fits));
                found.sort();
                wanted.sort();
                prop_assert_eq!(found, wanted);
            }
        }
        let time = |at: u64| Time::from_millis(at * millis);
        let period = Period { since: between.0.map(time), until: between.1.map(time) };
        for list in [
            List::All,
            List::Of(MerchantId(1)),
            List::With(LookupKey::Order, [0, 0, 0, 2]),
            List::With(LookupKey::Amount, [0, 0, 0, 2]),
        ] {
            let made = |position: &Position| Time::from_millis(model[*position as usize].0);
            let mut wanted = all(list);
            wanted.retain(|position| period.holds(made(position)));
            prop_assert_eq!(walk(&index, list, period, page), wanted);
        }
    }
}

#[test]
fn while_a_clock_is_behind_a_payment_goes_past_few_newer_ones() {
    let newer = u32::try_from(3 * MAX_STEPS).unwrap();
    let mut index = PaymentIndex::default();
    for number in 0..newer {
        index.enter(&entry(number, 0, 1, 1000));
    }
    for late in newer..newer + 9 {
        index.enter(&entry(late, 0, 1, 10));
        for list in [
            List::All,
            List::Of(MerchantId(1)),
            List::With(LookupKey::Order, [0; 4]),
        ] {
            let all = walk(&index, list, Period::default(), 70);
            let stands = all.iter().position(|position| *position == late);
            assert_eq!(stands, Some(MAX_STEPS), "{list:?}");
        }
    }
}

#[test]
fn a_period_long_ago_is_found_without_passing_all_that_came_later() {
    let count = u32::try_from(MAX_WALK * 4).unwrap();
    let mut index = PaymentIndex::default();
    for number in 0..count {
        // Every other payment belongs to one merchant.
        index.enter(&entry(number, 0, (number % 2).into(), number.into()));
    }
    let at = |number: u32| Some(Time::from_millis(number.into()));
    for (list, step) in [(List::All, 1), (List::Of(MerchantId(1)), 2)] {
        let old = Period {
            since: at(101),
            until: at(201),
        };
        let found = index.listed(list, old, None, 1000);
        let wanted: Vec<_> = (101..201).step_by(step).collect();
        let wanted: Vec<_> = wanted.into_iter().rev().collect();
        assert_eq!((found.positions, found.ended), (wanted, true));
        let lately = Period {
            since: at(count - 10),
            until: None,
        };
        let found = index.listed(list, lately, None, 1000);
        assert_eq!((found.positions.len(), found.ended), (10 / step, true));
    }
    // A list without milestones is read in limited steps, each with the position for the next one.
    let order = List::With(LookupKey::Order, [0; 4]);
    let old = Period {
        since: None,
        until: at(1),
    };
    let found = index.listed(order, old, None, 1000);
    assert_eq!((found.positions.len(), found.ended), (0, false));
    assert_eq!(walk(&index, order, old, 1000), [0]);
}

/// Numbers that look like hashes. The same in each run.
fn hash(number: u32) -> u32 {
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u32::try_from(mixed >> 32).unwrap()
}

/// An entry that shares its order with one in every `orders` entries.
fn hashed(number: u32, orders: u32) -> Entry {
    let mut entry = entry(number, 0, 0, number.into());
    let hashes = [
        hash(number),
        hash(!number),
        hash(number % orders),
        hash(number % 2),
    ];
    entry.marks = hashes.map(u32::to_be_bytes);
    entry
}

#[test]
fn every_payment_is_found_however_many_buckets_were_added() {
    const ORDERS: u32 = 1000;
    // The buckets are doubled two times, and some a third time.
    let count = u32::try_from(LEAST_BUCKETS * LOAD * 5).unwrap();
    let mut grown = PaymentIndex::default();
    let mut reserved = PaymentIndex::default();
    reserved.reserve(count as usize);
    for number in 0..count {
        let entry = hashed(number, ORDERS);
        grown.enter(&entry);
        reserved.enter(&entry);
    }
    for index in [&grown, &reserved] {
        assert_eq!(index.buckets.len(), LEAST_BUCKETS * 5);
        let mut listed_at_all = 0;
        for number in 0..count {
            let entry = hashed(number, ORDERS);
            for mark in [LookupKey::Reference, LookupKey::Token] {
                let mut found = index.found(mark, entry.marks[mark as usize]);
                assert!(found.any(|position| position == number), "{number}");
            }
            let order = entry.marks[LookupKey::Order as usize];
            if number < ORDERS {
                let any = Period::default();
                let listed = index.listed(
                    List::With(LookupKey::Order, order),
                    any,
                    None,
                    count as usize,
                );
                let listed = listed.positions;
                let same = (number..count).step_by(ORDERS as usize);
                assert_eq!(listed, same.rev().collect::<Vec<_>>());
                listed_at_all += listed.len();
            }
        }
        assert_eq!(listed_at_all, count as usize);
    }
}

#[test]
fn nothing_is_found_by_a_hash_that_only_half_fits() {
    let count = u32::try_from(LEAST_BUCKETS * LOAD * 3).unwrap();
    let mut index = PaymentIndex::default();
    for number in 0..count {
        index.enter(&hashed(number, count));
    }
    let all: std::collections::HashSet<u32> = (0..count).map(hash).collect();
    for number in 0..count {
        for other in [1, 1 << TAG_AT, 1 << 31].map(|bit| hash(number) ^ bit) {
            let found = index
                .found(LookupKey::Reference, other.to_be_bytes())
                .next();
            assert_eq!(found.is_some(), all.contains(&other), "{number}");
        }
    }
}
