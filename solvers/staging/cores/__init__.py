"""What dual prices leave open in an interval of the stage time: by states, by labels, and by HiGHS."""
