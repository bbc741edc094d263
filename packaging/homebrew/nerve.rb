# Homebrew formula. `cargo xtask dist` fills in the values between @, and writes it next to the packages.
class Nerve < Formula
  desc "Drive, record and orchestrate terminal AI agents"
  homepage "@HOMEPAGE@"
  url "@URL@"
  version "@VERSION@"
  sha256 "@HASH@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :@CPU@
  depends_on :linux

  def install
    bin.install "bin/nerve"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/nerve"
    zsh_completion.install "share/zsh/site-functions/_nerve"
    fish_completion.install "share/fish/vendor_completions.d/nerve.fish"
    doc.install Dir["share/doc/nerve/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/nerve --version")
  end
end
