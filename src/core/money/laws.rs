//! The laws of money: nothing is held that is not there, nothing is charged that was not held, nothing is lost on the way.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;

const fn purse(free: u64, held: u64) -> Purse {
    Purse { free, held }
}

fn ask(amount: u64, purses: &[usize]) -> Ask {
    Ask { amount, purses: purses.to_vec() }
}

#[test]
fn what_fits_into_every_purse_is_held_in_each() {
    let mut purses = [purse(10, 0), purse(7, 5)];
    assert_eq!(admit(&mut purses, &[ask(7, &[0, 1])]), [Verdict::Hold]);
    assert_eq!(purses, [purse(3, 7), purse(0, 12)]);
}
