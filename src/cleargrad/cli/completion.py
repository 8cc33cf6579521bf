"""`cleargrad completion bash|zsh|fish`: completion for a shell, generated from the parsers of all commands.

The script that comes out is static: it starts no Python when Tab is pressed. Read next: cli/__init__.py.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

SHELLS = ("bash", "zsh", "fish")
DESCRIPTION = "Prints a script that teaches a shell the commands and options of cleargrad."
EPILOG = """\
examples:
  source <(cleargrad completion bash)             this shell only
  cleargrad completion bash >> ~/.bash_completion
  cleargrad completion zsh > ~/.zfunc/_cleargrad  with fpath+=~/.zfunc before
                                                  compinit in ~/.zshrc
  cleargrad completion fish > ~/.config/fish/completions/cleargrad.fish"""


@dataclass(frozen=True)
class Option:
    """An option as shells see it; `words` are what may follow."""

    names: tuple[str, ...]
    help: str
    words: tuple[str, ...] = ()
    takes_value: bool = False


@dataclass(frozen=True)
class Command:
    """A command: its options, the words it takes, and whether a program with arguments of its own follows."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()
    runs_program: bool = False


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "completion",
        help="print tab completion for bash, zsh or fish",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to read it")
    parser.set_defaults(command=complete)


def complete(options: argparse.Namespace) -> None:
    from cleargrad.cli import make_parser

    print({"bash": for_bash, "zsh": for_zsh, "fish": for_fish}[options.shell](all_commands(make_parser())))


# From parsers to records -----------------------------------------------------------------------------------


def all_commands(parser: argparse.ArgumentParser) -> list[Command]:
    """Every command of the parser, the bare `cleargrad` last, under an empty name."""
    choices = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in choices._choices_actions}
    found = [describe(name, helps[name], each) for name, each in choices.choices.items()]
    return [*found, describe("", "", parser)]


def describe(name: str, help: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    words: tuple[str, ...] = ()
    runs_program = False
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if action.help == argparse.SUPPRESS:
            continue
        if action.option_strings:
            names = tuple(action.option_strings)
            text = (action.help or "").replace("%%", "%")
            options.append(Option(names, text, choices, takes_value=action.nargs != 0))
        elif choices:
            words = choices
        runs_program = runs_program or action.dest == "program"
    return Command(name, help, tuple(options), words, runs_program)


# Shells ----------------------------------------------------------------------------------------------------

BASH = """\
# Completion of cleargrad for bash, made by `cleargrad completion bash`.
_cleargrad() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= options= words= place
  for ((place = 1; place < COMP_CWORD; place++)); do
    case ${COMP_WORDS[place]} in -*) ;; *) command=${COMP_WORDS[place]}; break ;; esac
  done
  COMPREPLY=()
  case $command in
%s
    *) return ;;
  esac
  if [[ $word == -* ]]; then words=$options; fi
  if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}
complete -o default -F _cleargrad cleargrad"""


def for_bash(commands: list[Command]) -> str:
    """Where nothing of ours fits, bash goes on to files: after PROGRAM, and for options that name one."""
    cases = []
    for command in commands:
        names = " ".join(name for option in command.options for name in option.names)
        values = [option for option in command.options if option.takes_value]
        follow = {"|".join(option.names): " ".join(option.words) for option in values if option.words}
        free = "|".join(name for option in values if not option.words for name in option.names)
        inner = [f'{pattern}) options= words="{words}" ;;' for pattern, words in follow.items()]
        inner += [f"{free}) options= words= ;;"] if free else []
        cases.append(f"""    '{command.name}')\n      options="{names}" words="{" ".join(command.words)}\"""")
        cases += [f"      case $before in {' '.join(inner)} esac"] if inner else []
        cases.append("      ;;")
    return BASH % "\n".join(cases)


ZSH = """\
#compdef cleargrad
# Completion of cleargrad for zsh, made by `cleargrad completion zsh`.
_cleargrad() {
  local context state line
  local -a commands
  commands=(
%s
  )
  _arguments -C '1: :->command' '*:: :->rest' %s
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
%s
      esac ;;
  esac
}
if [[ $funcstack[1] == _cleargrad ]]; then _cleargrad "$@"; else compdef _cleargrad cleargrad; fi"""


def for_zsh(commands: list[Command]) -> str:
    *named, bare = commands
    listed = "\n".join(f"    {quoted(f'{each.name}:{each.help}')}" for each in named)
    cases = []
    for command in named:
        parts = [zsh_option(option) for option in command.options]
        if command.runs_program:
            parts += ["'1:program:_files'", "'*:argument:_files'"]
        elif command.words:
            parts.append(quoted(f"1:{command.name}:({' '.join(command.words)})"))
        cases.append(f"        {command.name}) _arguments {' '.join(parts)} ;;")
    return ZSH % (listed, " ".join(map(zsh_option, bare.options)), "\n".join(cases))


def zsh_option(option: Option) -> str:
    """As `_arguments` takes it: names that exclude each other, what it does, what follows."""
    text = option.help.replace("[", "(").replace("]", ")").replace(":", ",")
    follows = f":value:({' '.join(option.words)})" if option.words else ":value:_files"
    described = quoted(f"[{text}]" + (follows if option.takes_value else ""))
    if len(option.names) == 1:
        return option.names[0] + described
    return f"'({' '.join(option.names)})'{{{','.join(option.names)}}}{described}"


def for_fish(commands: list[Command]) -> str:
    *named, bare = commands
    lines = [
        "# Completion of cleargrad for fish, made by `cleargrad completion fish`.",
        *(
            f"complete -c cleargrad -n __fish_use_subcommand -f -a {each.name} -d {quoted(each.help)}"
            for each in named
        ),
        *(fish_option(option, "__fish_use_subcommand") for option in bare.options),
    ]
    for command in named:
        condition = f"'__fish_seen_subcommand_from {command.name}'"
        lines += [fish_option(option, condition) for option in command.options]
        if command.words:
            lines.append(f"complete -c cleargrad -n {condition} -f -a {quoted(' '.join(command.words))}")
    return "\n".join(lines)


def fish_option(option: Option, condition: str) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    follows = (
        (f" -x -a {quoted(' '.join(option.words))}" if option.words else " -r") if option.takes_value else ""
    )
    return f"complete -c cleargrad -n {condition} {names}{follows} -d {quoted(option.help)}"


def quoted(text: str) -> str:
    """For all three shells: in single quotes, which nothing inside may close."""
    return "'" + text.replace("'", "’") + "'"
