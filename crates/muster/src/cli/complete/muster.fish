# Completion of muster for fish: muster completion fish > ~/.config/fish/completions/muster.fish
function __muster_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l found ($program __complete fish -- $words "$current" 2>/dev/null)
    if test $status -eq 10
        # Files are the shell's.
        __fish_complete_path "$current"
        return
    end
    for line in $found
        echo $line
    end
end
complete -c muster -f -a '(__muster_complete)'
