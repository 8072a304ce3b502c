//! A reader that fails after the stop signal, so that reading a large file can be interrupted.

use std::io::{self, Read};

use cleveragents_ports::stop::StopSignal;

/// Reads until `stop` is signalled. After that every read fails.
#[derive(Debug)]
pub(crate) struct StoppableReader<'a, R> {
    pub(crate) from: R,
    pub(crate) stop: &'a StopSignal,
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        self.from.read(buffer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cleveragents_ports::stop::StopReason;

    use super::*;

    /// Endless zeros. Signals stop after a number of reads, and counts the reads.
    pub(crate) struct StopAfterReads {
        pub(crate) stop: StopSignal,
        pub(crate) after: usize,
        pub(crate) reads: usize,
    }

    impl Read for StopAfterReads {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads == self.after {
                self.stop.stop(StopReason::Cancelled);
            }
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    #[test]
    fn nothing_is_read_after_the_signal() {
        let stop = StopSignal::new();
        let mut zeros = StopAfterReads {
            stop: stop.clone(),
            after: 3,
            reads: 0,
        };
        let from = StoppableReader {
            from: &mut zeros,
            stop: &stop,
        };
        assert!(io::copy(&mut from.take(1 << 40), &mut io::sink()).is_err());
        assert_eq!(zeros.reads, 3);
    }
}
