//! Reading that ends when the work has to stop, however large a file is.

use std::io::{self, Read};

use cleveragents_engine::ports::stop::Stop;

/// Reads until `stop` is given: from then on every read fails.
#[derive(Debug)]
pub(crate) struct UntilStopped<'a, R> {
    pub(crate) from: R,
    pub(crate) stop: &'a Stop,
}

impl<R: Read> Read for UntilStopped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        self.from.read(buffer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cleveragents_engine::ports::stop::Stopped;

    use super::*;

    /// Endless zeros that give the stop signal after so many reads, and count the reads.
    pub(crate) struct StopsAfter {
        pub(crate) stop: Stop,
        pub(crate) after: usize,
        pub(crate) reads: usize,
    }

    impl Read for StopsAfter {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads == self.after {
                self.stop.stop(Stopped::Cancelled);
            }
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    #[test]
    fn nothing_is_read_after_the_signal() {
        let stop = Stop::new();
        let mut zeros = StopsAfter {
            stop: stop.clone(),
            after: 3,
            reads: 0,
        };
        let from = UntilStopped {
            from: &mut zeros,
            stop: &stop,
        };
        assert!(io::copy(&mut from.take(1 << 40), &mut io::sink()).is_err());
        assert_eq!(zeros.reads, 3);
    }
}
