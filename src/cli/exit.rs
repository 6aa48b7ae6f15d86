//! The exit codes, in one place (§2).

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Everything was done; also when another run held the Lease, a race was lost, or nothing could start.
    Done,
    /// At least one pool failed (transport, a refusal after the anchor, the deadline), or the output couldn't be written.
    Failed,
    /// Bad usage or configuration; clap's own code for it.
    Usage,
    /// No connection, or what the program needs isn't served or readable.
    NotConnected,
    /// The Lease was lost in mid-pass; nothing was written from then on.
    LeaseLost,
    /// Ended by SIGINT: 128 + 2.
    Interrupted,
    /// Ended by SIGTERM: 128 + 15.
    Terminated,
}

impl ExitCode {
    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotConnected => 3,
            Self::LeaseLost => 4,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}
