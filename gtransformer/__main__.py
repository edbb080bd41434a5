"""``python -m gtransformer SUBCOMMAND``, where the command ``gtransformer`` is not on the path."""

from gtransformer.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
