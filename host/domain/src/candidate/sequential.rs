//! A test of whether failures fall on the candidate's side more often than its share. It can be repeated at any
//! time.
//!
//! A keyed hash draws the side of each payment. If a payment fails no more often when the candidate decides it, a
//! failure is therefore the candidate's with a probability `q` of at most its share `p`, regardless of other
//! causes of failures and of their changes over time. With a margin `m` it may fail `a = 1 + m` times as often,
//! and `q` is at most `q0 = pa / (pa + 1 - p)`.
//!
//! For a candidate that fails `r` times as often as allowed, `q1 = par / (par + 1 - p)`. Each failure multiplies
//! the evidence by `q1 / q0` if it is the candidate's, and by `(1 - q1) / (1 - q0)` if not. The expectation of
//! that factor is linear in `q`, grows with it, and is 1 at `q0`: for every `q` up to `q0` the product is a
//! supermartingale that starts at 1, also over failures of different shares, and so is a mean of it over several
//! `r` (the method of mixtures: H. Robbins, "Statistical Methods Related to the Law of the Iterated Logarithm",
//! Annals of Mathematical Statistics 41, 1970). At some time it reaches `1 / alpha` with a probability of at most
//! `alpha` (J. Ville, "Étude critique de la notion de collectif", 1939), so that it can be evaluated after each
//! payment.
//!
//! M. Lindon and A. Malek, "Anytime-Valid Inference for Multinomial Count Data" (NeurIPS 2022), and M. Lindon, C.
//! Sanden and V. Shirikian, "Rapid Regression Detection in Software Deployments through Sequential Testing" (KDD
//! 2022), judge canaries in this way.

/// Maximum fraction of canaries that are rolled back although the candidate is no worse, regardless of the number
/// of evaluations.
pub const MOST_FALSE_ALARMS: f64 = 0.01;

/// Failure rates of the parts of the mixture, as multiples of the allowed rate: the excess doubles.
const RATIOS: [f64; 9] = [1.125, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0];

/// The natural logarithm of the evidence against a candidate that fails no more often than the margin allows: 0 is
/// neutral, more speaks against it. Always finite.
///
/// `levels` are shares in percent, with the numbers of failures of the candidate's payments and of the others
/// under each share. The margin is in percent of the others' failure rate.
pub fn log_evidence(levels: &[(u8, u64, u64)], margin_percent: u16) -> f64 {
    let allowed = 1.0 + f64::from(margin_percent) / 100.0;
    let logarithms = RATIOS.map(|ratio| {
        let of_level = |&(percent, candidate, control)| {
            log_likelihood_ratio(percent, allowed, ratio, candidate, control)
        };
        levels.iter().map(of_level).sum::<f64>()
    });
    let largest = logarithms.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let parts = logarithms.map(|logarithm| (logarithm - largest).exp());
    largest + (parts.iter().sum::<f64>() / RATIOS.len() as f64).ln()
}

/// Logarithm for one share: with the odds `o = pa / (1 - p)` that a failure is the candidate's,
/// `q1 / q0 = r (1 + o) / (1 + or)` and `(1 - q1) / (1 - q0) = (1 + o) / (1 + or)`.
fn log_likelihood_ratio(
    percent: u8,
    allowed: f64,
    ratio: f64,
    candidate: u64,
    control: u64,
) -> f64 {
    // If all payments are on one side, failures prove nothing.
    if !(1..100).contains(&percent) {
        return 0.0;
    }
    let (share, candidate, control) = (f64::from(percent), candidate as f64, control as f64);
    let odds = share * allowed / (100.0 - share);
    candidate * ratio.ln() - (candidate + control) * ((1.0 + odds * ratio) / (1.0 + odds)).ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn enough() -> f64 {
        (1.0 / MOST_FALSE_ALARMS).ln()
    }

    #[test]
    fn no_failure_and_a_share_of_all_or_none_say_nothing() {
        for levels in [
            &[][..],
            &[(10, 0, 0)],
            &[(100, 50, 0)],
            &[(0, 7, 50)],
            &[(255, 1, 1)],
        ] {
            assert!(log_evidence(levels, 0).abs() < 1e-9, "{levels:?}");
        }
    }

    #[test]
    fn failures_in_proportion_to_the_share_never_become_evidence() {
        for scale in [1, 10, 1_000, 1_000_000] {
            assert!(log_evidence(&[(10, scale, 9 * scale)], 0) < 0.1);
        }
        assert!(log_evidence(&[(10, 100, 300)], 0) > enough());
        assert!(log_evidence(&[(10, 0, 300)], 0) < 0.0);
    }

    #[test]
    fn the_margin_is_added_to_what_the_candidate_may_fail() {
        // 1.5 times as often as the others, which are nine times as many.
        let failed = [(10, 1_500, 9_000)];
        assert!(log_evidence(&failed, 0) > enough());
        assert!(log_evidence(&failed, 49) < enough());
        assert!(log_evidence(&failed, 50) < 0.1);
        assert!(log_evidence(&[(10, 2_000, 9_000)], 50) > enough());
    }

    #[test]
    fn evidence_of_all_shares_of_a_ramp_adds_up() {
        let whole = log_evidence(&[(10, 30, 120)], 0);
        let parts = log_evidence(&[(10, 10, 90), (10, 20, 30)], 0);
        assert!((whole - parts).abs() < 1e-9);
        // Three times as often as the others, under each share.
        let ramp = [(1, 6, 198), (5, 12, 76), (25, 20, 20)];
        let alone = ramp.map(|level| log_evidence(&[level], 0));
        let largest = alone.into_iter().fold(f64::MIN, f64::max);
        let together = log_evidence(&ramp, 0);
        assert!(together > largest + 1.0, "{together} of {alone:?}");
    }

    proptest! {
        #[test]
        fn evidence_is_finite_whatever_was_counted(
            levels in prop::collection::vec(
                (any::<u8>(), prop_oneof![Just(u64::MAX), any::<u64>()], prop_oneof![Just(u64::MAX), any::<u64>()]),
                0..20
            ),
            margin in any::<u16>(),
        ) {
            prop_assert!(log_evidence(&levels, margin).is_finite());
        }

        /// The condition for a supermartingale: the mean of the evidence after one more failure, if failures are
        /// the candidate's as often as allowed.
        #[test]
        fn one_more_failure_adds_nothing_on_average_where_the_candidate_is_as_bad_as_it_may_be(
            percent in 1..100_u8,
            candidate in 0..50_u64,
            control in 0..50_u64,
            margin in 0..300_u16,
        ) {
            let evidence = |candidate, control| log_evidence(&[(percent, candidate, control)], margin).exp();
            let share = f64::from(percent) * (1.0 + f64::from(margin) / 100.0);
            let its = share / (share + f64::from(100 - percent));
            let now = evidence(candidate, control);
            let then = its * evidence(candidate + 1, control) + (1.0 - its) * evidence(candidate, control + 1);
            prop_assert!((then / now - 1.0).abs() < 1e-9, "{now} becomes {then}");
        }
    }
}
