## systemd/
