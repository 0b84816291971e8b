# Completion of quadsim in fish: python -m quadsim completion fish > ~/.config/fish/completions/quadsim.fish

function __quadsim_complete
    set -l given (commandline -opc)
    set -l current (commandline -ct | string collect)
    set -l program (string replace -r '^~/' "$HOME/" -- $given[1])
    set -e given[1]
    if string match -q -- '*python*' (string split / -- $program)[-1]
        set program $program -m quadsim
        set -e given[1..2]
    end
    set current (string unescape -- $current; or echo $current)
    set -l lines ($program completion --complete $given "$current" 2>/dev/null </dev/null)
    set -l suffixes (string split -n ' ' -- $lines[1])
    set -e suffixes[1]
    set -e lines[1]
    string join \n -- $lines
    test -n "$suffixes"; or return 0
    set -l value (string replace -r '^[^=]*=' '' -- $current)
    set -l before (string sub -l (math (string length -- "$current") - (string length -- "$value")) -- "$current")
    set -l start (string replace -r '^~/' "$HOME/" -- "$value")
    for file in $start*
        set -l shown (string replace -- $start "$value" $file)
        if not string match -q -r '[[:cntrl:]]' -- $file
            if test -d $file
                echo "$before$shown/"
            else
                for suffix in $suffixes
                    if test "$suffix" = '*'; or string match -q -- "*$suffix" $file
                        echo "$before$shown"
                        break
                    end
                end
            end
        end
    end
end

function __quadsim_is_module
    set -l given (commandline -opc)
    test (count $given) -ge 3; and test "$given[2]" = -m; and test "$given[3]" = quadsim
end

complete -c quadsim -f -k -a '(__quadsim_complete)'
complete -c python -n __quadsim_is_module -f -k -a '(__quadsim_complete)'
complete -c python3 -n __quadsim_is_module -f -k -a '(__quadsim_complete)'
