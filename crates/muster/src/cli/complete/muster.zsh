#compdef muster
# Completion of muster for zsh. In ~/.zshrc, behind compinit: source <(muster completion zsh)
_muster() {
    local out code
    local -a found
    out=$("${(Q)words[1]}" __complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    code=$?
    if (( code == 10 )); then
        # Files are the shell's.
        _files
        return
    fi
    [[ -n $out ]] || return 1
    found=("${(@f)out}")
    _describe 'muster' found
}
if [ "$funcstack[1]" = "_muster" ]; then
    _muster "$@"
else
    compdef _muster muster
fi
