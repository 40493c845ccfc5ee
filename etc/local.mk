## etc/
