"""Workers that stay, which the capture itself hands small windows to."""
