# Builds nerve from the sources of this checkout:
#   nix run 'git+file:.?dir=packaging/nix' -- --version
{
  description = "Drives, records and orchestrates terminal AI agents";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forAllSystems = nixpkgs.lib.genAttrs systems;
      sources = ../..;
      manifest = builtins.fromTOML (builtins.readFile (sources + "/Cargo.toml"));
    in
    {
      packages = forAllSystems (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        rec {
          nerve = pkgs.rustPlatform.buildRustPackage {
            pname = "nerve";
            version = manifest.workspace.package.version;
            src = sources;
            cargoLock.lockFile = sources + "/Cargo.lock";
            cargoBuildFlags = [
              "--package=nerve"
              "--features=nerve/otel"
            ];
            # The tests need tmux, WezTerm, a browser and agents; CI runs them.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = ''
              $out/bin/nerve man --dir man
              installManPage man/*
              for shell in bash zsh fish; do
                $out/bin/nerve completions $shell > nerve.$shell
                installShellCompletion --cmd nerve --$shell nerve.$shell
              done
            '';
            meta = {
              description = "Drives, records and orchestrates terminal AI agents";
              license = with pkgs.lib.licenses; [
                mit
                asl20
              ];
              mainProgram = "nerve";
              platforms = systems;
            };
          };
          default = nerve;
        }
      );
    };
}
