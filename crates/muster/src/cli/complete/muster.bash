# Completion of muster for bash. In ~/.bashrc: source <(muster completion bash)
_muster() {
    local IFS=$'\n' program
    program=$(type -P -- "$1" || type -P muster) || return 0
    COMPREPLY=($("$program" __complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ $? -eq 10 ]]; then
        # Files are the shell's.
        compopt -o default 2>/dev/null
    fi
}
complete -F _muster muster
