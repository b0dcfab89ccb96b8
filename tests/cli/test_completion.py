"""Completion in a shell, as the README sets it up."""


def test_a_shell_completes_commands_and_options(splat, monkeypatch):
    monkeypatch.setattr("sys.argv", ["splat"])
    monkeypatch.setenv("_SPLAT_COMPLETE", "bash_complete")
    for typed, expected in (("splat ex", "export"), ("splat export --min", "--min-opacity")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
        assert expected in splat().out
