//! What is printed of panics: nothing of those that become errors.

use std::any::Any;
use std::cell::Cell;
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is going to be caught, and told as an error.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs what catches its panics: nothing is printed of them.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    print_no_errors();
    let before = IS_CAUGHT.replace(true);
    let outcome = run();
    IS_CAUGHT.set(before);
    outcome
}

/// From now on those panics are not printed that become errors: a want of threads among them, whoever wanted one.
pub(crate) fn print_no_errors() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() && want_of_threads(panic.payload()).is_none() {
                usual(panic);
            }
        }));
    });
}

/// What the standard library says where it can start no thread within a scope.
pub(crate) fn want_of_threads(panic: &(dyn Any + Send)) -> Option<&String> {
    panic.downcast_ref::<String>().filter(|told| told.starts_with("failed to spawn thread"))
}
