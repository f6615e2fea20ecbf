"""The file sink: settings, ledger, delivery with crashes at each step."""
