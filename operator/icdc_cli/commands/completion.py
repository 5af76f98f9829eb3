"""`icdc completion SHELL`, and the program `kubectl_complete-icdc` that answers each key of Tab.

Why not shtab, which writes static scripts from a parser: kubectl completes plugins by a program
that it runs (`kubectl_complete-<plugin>`), names of pipelines come from the cluster, and fish must
work too. With that program there, a shell needs a dozen lines that call it. It finds candidates in
the command line's own parser, so no option is listed twice.

    arguments, the last one to be completed    candidates
    re                                         restart, resume, resync
    status ""                                  names of pipelines
    resync shop --mode V                       Verify
    resync shop --mode=V                       --mode=Verify
    run -f ""                                  files, by the shell

It answers in the form of Cobra: a line `candidate<Tab>description` each, then `:0` where the shell
shall offer files and `:4` where not. It never fails: whoever presses Tab reads no error.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from icdc_api.errors import IcdcError
from icdc_cli import options
from icdc_cli.cluster import kubeconfig, session
from icdc_cli.exits import Exit
from icdc_cli.explanations import lookup
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY, ClusterApi
from icdc_operator.cluster.kube.kinds import Resource

PROGRAM = "kubectl_complete-icdc"
SECONDS = 2.0
"""How long names of pipelines are waited for."""
NOTHING = ":4\n"
"""The answer without a candidate."""
MAX_DESCRIPTION = 60
"""Characters of a description, which stands beside its candidate."""

_BASH = f"""\
# source <(icdc completion bash)
_icdc() {{
  local i line part rest marks last= cut= left=${{COMP_LINE:0:COMP_POINT}}
  local -a words=()
  # bash divides words at : and = too. What has no blank between is one word, up to the cursor.
  for (( i = 0; i <= COMP_CWORD; i++ )); do
    rest=${{left#"${{left%%[![:blank:]]*}}"}}
    part=$rest
    (( i == COMP_CWORD )) || part=${{COMP_WORDS[i]}}
    if (( i > 1 )) && [[ $rest == "$left" && ( $part == [:=]* || $last == *[:=] ) ]]; then
      words[${{#words[@]}}-1]+=$part
    else
      words+=("$part")
    fi
    left=${{rest#"$part"}}
    last=$part
  done
  # It replaces only what is behind the last of them.
  marks=${{COMP_WORDBREAKS//[^:=]/}}
  part=${{words[${{#words[@]}}-1]}}
  [[ -z $marks ]] || cut=${{part%"${{part##*[$marks]}}"}}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :0) compopt -o default 2>/dev/null ;;
      :*) ;;
      *) line=${{line%%$'\\t'*}}; COMPREPLY+=("${{line#"$cut"}}") ;;
    esac
  done < <({PROGRAM} "${{words[@]:1}}" 2>/dev/null)
}}
complete -F _icdc icdc
"""
_ZSH = f"""\
#compdef icdc
# source <(icdc completion zsh), after compinit; or the file _icdc in a folder of fpath
_icdc() {{
  local line word ret=1
  local -a candidates
  while IFS= read -r line; do
    case $line in
      :0) compset -P '--*='; _files && ret=0 ;;
      :*) ;;
      # A colon divides a candidate from its description, which not every one has.
      *) word=${{${{line%%$'\\t'*}}//:/\\\\:}}
         [[ $line != *$'\\t'* ]] || word+=:${{line#*$'\\t'}}
         candidates+=("$word") ;;
    esac
  done < <({PROGRAM} "${{(@Q)words[2,CURRENT-1]}}" "${{(Q)PREFIX}}" 2>/dev/null)
  (( $#candidates )) && _describe icdc candidates && ret=0
  return ret
}}
# In a folder of fpath all this is what the first Tab calls.
if [[ $funcstack[1] == _icdc ]]; then _icdc "$@"; else compdef _icdc icdc; fi
"""
_FISH = f"""\
# icdc completion fish | source
function __icdc_candidates
    set -l typed (commandline -opc) (commandline -ct)
    set -l answer ({PROGRAM} $typed[2..-1] 2>/dev/null)
    if contains -- :0 $answer
        # What fish offers to a command that it knows nothing of are files.
        set -l option (string match --regex -- '^--[^=]+=' $typed[-1])
        set -l path (string replace -- "$option" '' $typed[-1])
        for file in (complete --do-complete "__icdc_files $path")
            echo "$option$file"
        end
    else
        string match --invert --regex '^:' -- $answer
    end
end
complete -c icdc -f -a '(__icdc_candidates)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@dataclass
class TypedWords:
    """What has been typed before the word to complete."""

    parser: argparse.ArgumentParser
    """That of the command whose arguments follow."""
    pending: argparse.Action | None = None
    """The option whose value is the next word."""
    positionals: int = 0
    """Positional arguments of `parser` that are there."""
    values: dict[str, str] = field(default_factory=dict)
    """Values of options that are there, by their `dest`."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "completion",
        help="print the completion for a shell",
        description="Prints a script by which the shell completes commands, options, names of "
        "pipelines and contexts. bash and zsh: source <(icdc completion bash). fish: icdc "
        f"completion fish | source. kubectl icdc is completed through {PROGRAM} on the PATH.",
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    options.add_verbose(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    sys.stdout.write(_SCRIPTS[arguments.shell])
    return Exit.DONE


def answer(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return the answer to Tab after `words`, of which the last one is to be completed."""
    *before, prefix = words or [""]
    typed = _read_words(parser, before)
    candidates = _list_candidates(typed, prefix)
    if candidates is None:
        return ":0\n"
    matches = [(word, help) for word, help in candidates if word.startswith(prefix)]
    lines = [f"{word}\t{help}" if help else word for word, help in matches]
    return "".join(f"{line}\n" for line in lines) + NOTHING


def _read_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> TypedWords:
    typed = TypedWords(parser)
    for word in words:
        if typed.pending is not None:
            typed.values[typed.pending.dest] = word
            typed.pending = None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = _find_option(typed.parser, name)
            if option is not None and equals:
                typed.values[option.dest] = value
            # A switch has nargs 0: the word behind it is no value.
            elif option is not None and option.nargs != 0:
                typed.pending = option
        elif (commands := _find_commands(typed.parser)) and word in commands.choices:
            typed = TypedWords(commands.choices[word], values=typed.values)
        else:
            typed.positionals += 1
    return typed


def _find_option(parser: argparse.ArgumentParser, name: str) -> argparse.Action | None:
    return next((a for a in parser._actions if name in a.option_strings), None)


def _find_commands(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    # argparse has no public list of what a parser takes.
    groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return next(groups, None)


def _list_candidates(typed: TypedWords, prefix: str) -> Iterator[tuple[str, str]] | None:
    """Return candidates with their descriptions; None where the shell shall offer files."""
    if typed.pending is not None:
        return _list_values(typed.pending, typed)
    if prefix.startswith("-"):
        name, equals, _ = prefix.partition("=")
        return _list_joined(name, typed) if equals else _list_options(typed.parser)
    commands = _find_commands(typed.parser)
    if commands is not None:
        return ((a.dest, _shorten(a.help)) for a in commands._choices_actions)
    positionals = [a for a in typed.parser._actions if not a.option_strings]
    if typed.positionals < len(positionals):
        return _list_values(positionals[typed.positionals], typed)
    return iter(())


def _list_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        for name in action.option_strings:
            # The short ones stand beside the long ones in --help, and are no shorter to complete.
            if name.startswith("--"):
                yield name, _shorten(action.help)


def _list_joined(name: str, typed: TypedWords) -> Iterator[tuple[str, str]] | None:
    """Return the values of the option, each behind `name=`; None for files."""
    option = _find_option(typed.parser, name)
    if option is None or option.nargs == 0:
        return iter(())
    values = _list_values(option, typed)
    return None if values is None else ((f"{name}={value}", text) for value, text in values)


def _list_values(action: argparse.Action, typed: TypedWords) -> Iterator[tuple[str, str]] | None:
    if action.type is Path or action.dest in ("file", "kubeconfig"):
        return None
    if action.choices is not None:
        return ((str(choice), "") for choice in action.choices)
    # Options with values of an enum list them for people: {text,json,yaml}.
    shown = action.metavar if isinstance(action.metavar, str) else ""
    if shown.startswith("{"):
        return ((value.partition("=")[0], "") for value in shown.strip("{}").split(","))
    find = _SOURCES.get(action.dest)
    return iter(()) if find is None else ((name, "") for name in find(typed.values))


def _list_pipelines(values: dict[str, str]) -> list[str]:
    """Return the names of the pipelines in the namespace that was typed; none if not known."""
    arguments = argparse.Namespace(
        **{name: values.get(name) for name in ("namespace", "context", "kubeconfig")}
    )

    async def read(api: ClusterApi, namespace: str) -> list[Resource]:
        return await api.list_objects(kinds.PIPELINE, namespace, accept=METADATA_ONLY)

    try:
        pipelines = session.run_limited(
            lambda: session.run_in_namespace(read, arguments), seconds=SECONDS
        )
    except IcdcError:
        return []
    return [pipeline["metadata"]["name"] for pipeline in pipelines]


def _list_contexts(values: dict[str, str]) -> list[str]:
    given = argparse.Namespace(kubeconfig=values.get("kubeconfig"))
    try:
        return kubeconfig.list_contexts(session.choose_environment(given))
    except IcdcError:
        return []


def _list_words(_values: dict[str, str]) -> list[str]:
    return sorted({entry.word for entry in lookup.list_all()})


_SOURCES: dict[str, Callable[[dict[str, str]], list[str]]] = {
    "name": _list_pipelines,
    "context": _list_contexts,
    "word": _list_words,
}
"""What finds the values of arguments that have no choices, by their `dest`."""


def _shorten(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1].rstrip()}…"
