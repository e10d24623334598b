# Completion of watchkeeper for PowerShell: the program itself is asked what may come next.

Register-ArgumentCompleter -Native -CommandName 'watchkeeper' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $words = @($commandAst.CommandElements |
        Where-Object { $_.Extent.EndOffset -le $cursorPosition } |
        ForEach-Object { $_.Extent.Text })
    $program = $words[0]
    $before = @($words | Select-Object -Skip 1)
    # The unfinished word is passed last, empty after a space.
    if ($wordToComplete -and $before.Count -gt 0 -and $before[-1] -eq $wordToComplete) {
        $before = @($before | Select-Object -SkipLast 1)
    }
    $last = if ($wordToComplete) { $wordToComplete } else { '' }
    # Windows PowerShell drops empty arguments unless they are quoted twice.
    if ($last -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3') { $last = '""' }

    & $program __complete -- @before $last 2>$null | ForEach-Object {
        if ($_ -notmatch '^:\d+$') {
            $candidate, $description = $_ -split "`t", 2
            if (-not $description) { $description = $candidate }
            [System.Management.Automation.CompletionResult]::new($candidate, $candidate, 'ParameterValue', $description)
        }
    }
}
